"""What a corpus for a compiler leaves out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import ml_dtypes
import pytest

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.corpus.entry import Entry
from nnfuzz.corpus.supported import BORDERS, RARE, UNSUPPORTED, supported_only
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.identity import Numbered, Probe


@dataclass(frozen=True)
class Fake:
    """A runner whose compiler gives the same outcome for every model."""

    kind: OutcomeKind
    name = "fake"
    reads = "onnx"

    @property
    def backend(self):
        return type("Backend", (), {"levels": ("O0",)})

    def run(self, model, inputs, levels):
        return [Outcome(self.kind, Stage.COMPILE, Target("fake", "O0"), message="no")]


def entries(case, dtype, count=2 * RARE):
    expected = {name: array.astype(dtype) for name, array in case.expected.items()}
    return [Entry(replace(case, id=Numbered(7, k), expected=expected)) for k in range(count)]


def stages(made, *kinds):
    found = supported_only(made, [Fake(kind) for kind in kinds])
    return [e.stage if isinstance(e, NotProduced) else "taken" for e in found]


def test_dtypes_that_numpy_lacks_are_rare_at_the_borders(case):
    rest = [BORDERS] * (RARE - 1)
    made = entries(case, ml_dtypes.bfloat16)
    assert stages(made, OutcomeKind.OK) == ["taken", *rest, "taken", *rest]
    assert stages(made) == ["taken"] * len(made)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_dtypes_of_numpy_are_all_taken(case, dtype):
    assert set(stages(entries(case, dtype), OutcomeKind.OK, OutcomeKind.CRASH)) == {"taken"}


def test_what_one_compiler_lacks_is_left_out(case):
    made = entries(case, "float32", 2)
    assert stages(made, OutcomeKind.OK, OutcomeKind.UNSUPPORTED) == [UNSUPPORTED] * 2


def test_tests_that_were_asked_for_one_by_one_are_taken(case):
    (entry,) = entries(case, ml_dtypes.bfloat16, 1)
    single = replace(entry.case, id=Probe(SupportKey.parse("direct:Relu(float32)->float32"), 1))
    assert stages([Entry(single)], OutcomeKind.OK) == ["taken"]
