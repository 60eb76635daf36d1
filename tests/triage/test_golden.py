"""Signatures of real failures: a growing corpus, refreshed with `pytest tests/triage --update`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nnfuzz.backend.outcome import Outcome
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.triage.signature import failures, text_of

BACKENDS = BackendRegistry.discover()

FILES = sorted((Path(__file__).parent / "testdata").glob("*.json"))


def as_read(outcome):
    """With the complaint that the backend's adapter reads today."""
    told = BACKENDS.get(outcome.backend).complaint(text_of(outcome))
    return replace(outcome, complaint=told)


def signatures(data):
    outcomes = [as_read(read(Outcome, o)) for o in data["outcomes"]]
    return [as_json(f.signature) for f in failures(outcomes)]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_signature(file, request):
    data = json.loads(file.read_text())
    found = signatures(data)
    if request.config.getoption("--update", default=False):
        file.write_text(json.dumps({**data, "signatures": found}, indent=1) + "\n")
    else:
        assert found == data["signatures"]


def test_corpus_is_told_apart():
    """Different causes have different signatures, and each failed in the same way at all levels."""
    hashes = {}
    for file in FILES:
        found = signatures(json.loads(file.read_text()))
        assert len(found) == 1, file.stem
        hashes.setdefault(found[0]["hash"], []).append(file.stem)
    assert len(FILES) >= 15
    assert all(len(stems) == 1 for stems in hashes.values()), hashes
