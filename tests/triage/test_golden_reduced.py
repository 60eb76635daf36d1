"""Reduced failures of real compilers: one hash per cause, one cause per hash.

Each file of testdata/reduced holds failures that one change of the compiler would mend, as far as
reading its sources tells.
"""

import json
from pathlib import Path

import pytest

from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.base.reading import read
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.ir.view import GraphView
from nnfuzz.triage.cause import Cause, Symptoms
from nnfuzz.triage.signature import Failure, Signature

FILES = sorted((Path(__file__).parent / "testdata" / "reduced").glob("*.json"))


def hashes(file):
    found = set()
    for case in json.loads(file.read_text()):
        failure = Failure(
            read(Signature, case["signature"]),
            OutcomeKind(case["kind"]),
            Stage(case["stage"]),
            tuple(Target(case["backend"], pipeline=level) for level in case["levels"]),
        )
        told = {k: tuple(v) if isinstance(v, list) else v for k, v in case["symptoms"].items()}
        told["verdict"] = read(Verdict, v) if (v := told.get("verdict")) else None
        found.add(Cause.of(failure, GraphView.from_json(case["graph"]), Symptoms(**told)).hash)
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_one_cause_is_one_finding(file):
    assert len(hashes(file)) == 1


def test_different_causes_are_told_apart():
    assert len(FILES) >= 40
    assert len(set().union(*map(hashes, FILES))) == len(FILES)
