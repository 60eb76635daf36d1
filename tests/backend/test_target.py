"""Targets, their outcomes and deviations."""

import itertools
import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.backend.contract import Backend, BackendOptions, option
from nnfuzz.backend.numeric import Deviation
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import BackendSpec, labelled
from nnfuzz.backend.target import Pipeline, Target, TargetError, differing, minimal, simpler
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.triage.survey import survey
from tests.triage.test_survey import compiler, through

NAMES = st.text(min_size=1, max_size=8)
TARGETS = st.builds(Target, NAMES, st.text(max_size=5), NAMES, st.text(max_size=8), st.text())
LEVELS = ("O0", "O1", "O3")
FEW = [
    Target("a", release, device, pipeline, form)
    for release, device, pipeline, form in itertools.product(
        ("1", "2"),
        ("cpu", "cuda:0"),
        ("O0", "O1+a", "O3+a+b", "O1,x=1", "O9"),
        ("direct", "dynamo"),
    )
]


@given(TARGETS)
def test_parse_reads_what_str_writes(target):
    assert Target.parse(str(target)) == target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("tvm", Target("tvm")),
        ("tvm/O0", Target("tvm", pipeline="O0")),
        ("onnxruntime@1.30.0", Target("onnxruntime", "1.30.0")),
        (":direct", Target(form="direct")),
        ("tvm/cuda:0/O3", Target("tvm", device="cuda:0", pipeline="O3")),
        ("tvm/cuda/", Target("tvm", device="cuda")),
        (
            "onnxruntime@1.31.1/cpu/O3,threads=2:torchscript",
            Target("onnxruntime", "1.31.1", "cpu", "O3,threads=2", "torchscript"),
        ),
    ],
)
def test_short_forms(text, target):
    assert Target.parse(text) == target


def test_the_long_form_is_written():
    assert str(Target("ort", "1.2", "cpu", "O3", "dynamo")) == "ort@1.2/cpu/O3:dynamo"
    assert str(Target("ort", form="dynamo")) == "ort:dynamo"


@pytest.mark.parametrize("text", ["", "tvm//O3", "tvm/cpu/O3/x", "tvm@", "tvm:", "a@1@2", "tvm/"])
def test_what_is_no_target_says_how_one_is_written(text):
    with pytest.raises(TargetError, match="is no target: write COMPILER"):
        Target.parse(text)


def test_simpler_is_a_partial_order():
    for a, b, c in itertools.product(FEW, repeat=3):
        assert not (simpler(a, b, LEVELS) and simpler(b, a, LEVELS))
        if simpler(a, b, LEVELS) and simpler(b, c, LEVELS):
            assert simpler(a, c, LEVELS)
    assert not any(simpler(a, a, LEVELS) for a in FEW)


def test_what_is_simpler():
    base = Target("a", "1", "cpu", "O1", "dynamo")
    assert simpler(Target("a", "1", "cpu", "O0", "direct"), base, LEVELS)
    assert simpler(base, Target("a", "1", "cuda:0", "O3,x=1", "dynamo"), LEVELS)
    assert not simpler(Target("a", "2", "cpu", "O0", "dynamo"), base, LEVELS)
    assert not simpler(Target("b", "1", "cpu", "O0", "dynamo"), base, LEVELS)
    assert not simpler(Target("a", "1", "cpu", "O9", "dynamo"), base, LEVELS)
    assert not simpler(Target("a", "1", "cpu", "O0", "torchscript"), base, LEVELS)
    assert differing(base, Target("a", "2", "cpu", "O0", "dynamo")) == ("release", "pipeline")


def test_every_target_has_a_minimal_one_below_it():
    least = minimal(FEW, LEVELS)
    assert least
    assert all(t in least or any(simpler(m, t, LEVELS) for m in least) for t in FEW)


class Toy(Backend):
    name = "toy"
    levels = ("O0", "O1")

    class Options(BackendOptions):
        pass

    def versions(self):
        return {"toy": "7.1", "llvm": "20"}

    def load(self, model):
        return model

    def build(self, module, level):
        return lambda inputs: inputs


def optioned(**fields):
    """A backend with an Options class of these fields."""
    from dataclasses import make_dataclass

    made = [(name, str, default) for name, default in fields.items()]
    options = make_dataclass("Options", made, bases=(BackendOptions,), frozen=True, kw_only=True)
    return type("Optioned", (Toy,), {"Options": options})


def test_a_backend_says_its_target():
    assert Toy().target("O1", "7.1") == Target("toy", "7.1", "cpu", "O1")
    assert Toy(timeout=5, jobs=2).target("O1") == Target("toy", "", "cpu", "O1")
    assert Toy().release == "7.1"  # known once the compiler is asked


def test_options_become_coordinates_by_name_or_meaning():
    cls = optioned(
        device="cpu", release="1.0", mode=option("plain", "how"), where=option("x", "h", means="y")
    )
    assert cls().target("O1") == Target("toy", "1.0", "cpu", "O1")
    chosen = cls(device="gpu:1", release="2.0", mode="fast", where="z").target("O0")
    assert chosen == Target("toy", "2.0", "gpu:1", "O0,mode=fast")
    assert optioned(provider=option("cpu", "h", means="device"))(provider="npu").device == "npu"


def test_labels_tell_the_backends_of_a_campaign_apart():
    def labels(*specs):
        return [spec.label for spec in labelled([BackendSpec(*spec) for spec in specs])]

    assert labels(("a", {"x": 1}), ("b", {})) == ["a", "b"]
    assert labels(("a", {}), ("a", {"device": "gpu"})) == ["a", "a,device=gpu"]
    both = ("a", {"jobs": 2, "device": "cpu"}), ("a", {"jobs": 2, "device": "gpu"})
    assert labels(*both) == ["a,device=cpu", "a,device=gpu"]
    assert labels(("a", {}), ("a", {})) == ["a", "a"]
    spec = labelled([BackendSpec("a"), BackendSpec("a", {"x": 1})])[1]
    assert BackendSpec.from_json(as_json(spec)).label == "a,x=1"


@given(st.builds(Pipeline, st.text(), st.lists(NAMES).map(tuple)))
def test_a_pipeline_is_read_as_it_is_written(pipeline):
    text = str(pipeline)
    assert str(Pipeline.parse(text)) == text
    if "+" not in "".join((pipeline.level, *pipeline.steps)):
        assert Pipeline.parse(text) == pipeline
        assert Target.parse(str(Target("a", pipeline=text))).pipeline == text


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("O0", "O0+a", True),
        ("O0", "O1+a", True),
        ("O1+a", "O1+b+a", True),
        ("O1+a", "O3+a", True),
        ("O1+a+b", "O1+b+a", False),
        ("O3", "O1+a", False),
        ("O1+a", "O1", False),
        ("O1+a,x=1", "O1+a+b", False),
    ],
)
def test_a_pipeline_with_fewer_steps_is_simpler(one, other, expected):
    targets = (Target("a", pipeline=text) for text in (one, other))
    assert simpler(*targets, LEVELS) is expected


def test_options_stand_behind_the_steps():
    target = Target.parse("a/O1+Fold+mode=odd,threads=2")
    assert (target.level, target.options) == ("O1+Fold+mode=odd", {"threads=2"})
    assert Pipeline.parse(target.level).options == ("mode=odd",)


def test_json_round_trip_without_the_outputs():
    outcome = Outcome(
        kind=OutcomeKind.CRASH,
        stage=Stage.COMPILE,
        target=Target("tvm", "0.20", "cpu", "O3", "direct"),
        message="killed by SIGSEGV",
        signal="SIGSEGV",
        captured="last words",
        seconds={"import": 0.1},
        outputs={"y": np.ones(3)},
    )
    data = json.loads(json.dumps(as_json(outcome)))
    assert "outputs" not in data
    back = read(Outcome, data)
    assert as_json(back) == as_json(outcome)
    assert back.target == outcome.target
    assert (back.backend, back.level) == ("tvm", "O3")
    assert (back.kind, back.stage) == (OutcomeKind.CRASH, Stage.COMPILE)
    assert not back.ok
    assert not back.over_memory_limit


# Habits of compilers.


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("float64", "float32"),
        ("float32", "float16"),
        ("float32", "bfloat16"),
        ("float16", "bfloat16"),
        ("int64", "int32"),
        ("int64", "float32"),
        ("int64", "float64"),
        ("uint64", "uint32"),
    ],
)
def test_a_narrower_type_is_told_by_what_it_loses(old, new):
    kind = ml_dtypes.bfloat16 if new == "bfloat16" else np.dtype(new)
    assert survey(compiler(through(old, kind))) == (Deviation(old, new),)
