"""Identities of failures are read from the form in which older versions have written them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnfuzz.backend.deviation import CONSIDERED, Deviation
from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.triage.identity import (
    CauseIdentity,
    ErrorIdentity,
    HabitIdentity,
    HangIdentity,
    MismatchIdentity,
    RefusalIdentity,
    corrupted,
    digest_of,
    habits_of,
    identity_of,
    message_of,
    operators_of,
    wordless,
    wrong_of,
)

FILES = sorted((Path(__file__).parent / "testdata").rglob("*.json"))
COMMON = {"backend": "tvm", "kind": "mismatch", "stage": "compare"}
FORMS = [
    (ErrorIdentity, {"kind": "crash", "stage": "compile", "error": "", "signal": "SIGSEGV",
                     "message": "", "frames": [], "operators": ["Elu"], "levels": "optimised"}),
    (HangIdentity, {"kind": "timeout", "stage": "execute", "levels": "everywhere"}),
    (MismatchIdentity, {**COMMON, "wrong": "value", "operators": ["Conv", "Relu"],
                        "switches": ["pads"], "levels": "everywhere"}),
    (HabitIdentity, {**COMMON, "habits": ["int8 saturates where it should wrap around"]}),
    (RefusalIdentity, {"kind": "accepted", "fault": "cycle", "levels": "optimised"}),
    (RefusalIdentity, {"kind": "exception", "error": "KeyError", "frames": ["a.py:f"]}),
    (RefusalIdentity, {"kind": "crash", "signal": "SIGABRT", "message": "x", "fault": "cycle"}),
    (CauseIdentity, {"passes": ["Fuse"], "backend": "tvm"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "parts"), FORMS)
def test_each_kind_of_failure_has_its_record(kind, parts):
    found = identity_of(parts)
    assert type(found) is kind and found.to_json() == parts
    assert identity_of(found.to_json()) == found and digest_of(found.to_json()) == digest_of(parts)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_signatures_that_were_written_are_read(file):
    data = json.loads(file.read_text())
    listed = data["signatures"] if isinstance(data, dict) else [d["signature"] for d in data]
    for signature in listed:
        found = identity_of(signature["parts"])
        assert not isinstance(found, CauseIdentity)
        assert digest_of(found.to_json()) == digest_of(signature["parts"])


def test_any_identity_may_be_asked():
    hang = HangIdentity(kind=OutcomeKind.TIMEOUT, stage=Stage.COMPILE)
    asked = (message_of(hang), wrong_of(hang), operators_of(hang), habits_of(hang))
    assert asked == ("", "", (), ()) and not corrupted(hang) and not wordless(hang)
    died = ErrorIdentity(message="", signal="SIGSEGV")
    assert corrupted(died) and wordless(died)
    placed = ErrorIdentity(message="", signal="SIGSEGV", frames=("ns::kernel",))
    assert not corrupted(placed) and not wordless(placed)


def test_habits_are_read_from_their_text():
    for habit in CONSIDERED:
        assert Deviation.parse(str(habit)) == habit
    narrow = [
        Deviation.parse(f"{d} saturates where it should wrap around") for d in ("int8", "int16")
    ]
    assert len({habit.decision for habit in narrow}) == 1
    with pytest.raises(ValueError, match="no habit"):
        Deviation.parse("anything else")
