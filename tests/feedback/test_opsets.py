"""What answers at one opset say of others."""

from __future__ import annotations

from nnfuzz.backend.outcome import Brief
from nnfuzz.feedback.probe import Prober
from nnfuzz.feedback.support import (
    OK,
    UNSUPPORTED,
    ProbeAnswer,
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


def test_the_newest_version_of_a_signature():
    newest = VersionedKeys(KEYS).newest(KEYS[:6:2])
    assert written(newest) == [f"direct@26:{FLOAT}", f"torchscript@20:{FLOAT}"]


def observed(made_by: str, kind: str, items=(FLOAT,)) -> TestRow:
    outcomes = {"toy": {"O0": Brief(kind, message="no such thing")}}
    return TestRow(0, "run", 0, outcomes, exporter=made_by, items=items)


def test_a_test_vouches_for_its_version_and_asks_about_it():
    found = Prober({"toy": ("O0",)}, KEYS)
    assert found.learn([observed("direct@22", "ok")], 10) == 0
    assert found.tables["toy"].entries[KEYS[0]].status == OK
    assert found.learn([observed("direct@15", "unsupported")], 10) == 1
    assert str(found.next().key) == f"direct@21:{FLOAT}"
