"""What answers at one opset say of others."""

from __future__ import annotations

from nnfuzz.backend.outcome import Brief
from nnfuzz.feedback.probe import Prober
from nnfuzz.feedback.support import (
    INSTANCES,
    OK,
    UNSUPPORTED,
    ProbeAnswer,
    ProbeAnswers,
    VersionedKeys,
)
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.rows import TestRow

FLOAT, DOUBLE = "Acos(float32)->float32", "Acos(float64)->float64"
TEXTS = [
    *(f"direct@{opset}:{item}" for opset in (26, 21) for item in (FLOAT, DOUBLE)),
    *(f"torchscript@20:{item}" for item in (FLOAT, DOUBLE)),
    "direct@26:Relu(float32)->float32",
]
KEYS = [SupportKey.parse(text) for text in TEXTS]
NO = ProbeAnswer(UNSUPPORTED, "unsupported in import at O0: no kernel")


def written(keys):
    return list(map(str, keys))


def test_a_test_has_the_newest_opset_of_a_version_in_its_keys():
    versions = VersionedKeys(KEYS)
    items = [FLOAT, "Relu(float32)->float32", "Acos->Relu(float32)", "Sin(float32)->float32"]
    assert written(versions.of_test(items, "direct@24")) == [
        *(f"direct@26:{FLOAT}", "direct@26:Relu(float32)->float32")
    ]
    assert written(versions.of_test([FLOAT], "direct@13")) == [f"direct@21:{FLOAT}"]
    assert written(versions.of_test([FLOAT], "torchscript@14")) == [f"torchscript@20:{FLOAT}"]
    pinned = VersionedKeys([SupportKey.parse(f"direct:{FLOAT}")])
    assert written(pinned.of_test([FLOAT], "direct")) == [f"direct:{FLOAT}"]


def test_the_newest_and_the_older_versions_of_a_signature():
    versions = VersionedKeys(KEYS)
    assert written(versions.newest(KEYS[:6:2])) == [f"direct@26:{FLOAT}", f"torchscript@20:{FLOAT}"]
    assert written(versions.older(KEYS[0])) == [f"direct@21:{FLOAT}"]
    assert not [*versions.older(KEYS[2])]


def prober(*supported: str, refused: str = f"direct@26:{DOUBLE}") -> Prober:
    """A prober after answers on the newest version."""
    answers = ProbeAnswers()
    for text in supported:
        answers.add("toy", SupportKey.parse(text), 0, {"O0": ProbeAnswer(OK)})
    for number in range(INSTANCES):
        answers.add("toy", SupportKey.parse(refused), number, {"O0": NO})
    found = Prober({"toy": ("O0",)}, KEYS, answers)
    found.ask([SupportKey.parse(text) for text in (*supported, refused)])
    return found


def test_a_refused_dtype_is_refused_at_older_versions_too():
    found = prober(f"direct@26:{FLOAT}").refused()
    assert written(sorted(found)) == [f"direct@21:{DOUBLE}", f"direct@26:{DOUBLE}"]


def test_older_versions_stay_where_the_version_itself_is_lacking():
    assert written(prober().refused()) == [f"direct@26:{DOUBLE}"]


def observed(made_by: str, kind: str, items=(FLOAT,)) -> TestRow:
    outcomes = {"toy": {"O0": Brief(kind, message="no such thing")}}
    return TestRow(0, "run", 0, outcomes, exporter=made_by, items=items)


def test_a_test_vouches_for_its_version_and_asks_about_it():
    found = Prober({"toy": ("O0",)}, KEYS)
    assert found.learn([observed("direct@22", "ok")], 10) == 0
    assert found.tables["toy"].entries[KEYS[0]].status == OK
    assert found.learn([observed("direct@15", "unsupported")], 10) == 1
    assert str(found.next().key) == f"direct@21:{FLOAT}"
