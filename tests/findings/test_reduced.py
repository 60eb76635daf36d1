"""Titles of reduced findings, and the run of a repro.py before its finding is reported."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.findings.reduced import SCRIPT, Trial, tried, with_title

REGISTRY = BackendRegistry.discover()


def finding(kind=OutcomeKind.MISMATCH):
    """What a trial asks of a finding."""
    return SimpleNamespace(
        backend=REGISTRY.parse("onnxruntime"), failure=SimpleNamespace(kind=kind)
    )


POISONED = "import os, sys; print(1); sys.exit(os.environ.get('MALLOC_PERTURB_') == '170')"


@pytest.mark.parametrize(
    "script, found, words",
    [
        ("print(1); raise SystemExit(1)", Trial(1, 1), ""),
        ("import os; os.abort()", Trial(1, 1), ""),
        ("", Trial(0, 3), "does not reproduce: repro.py failed in 0 of 3 runs"),
        (POISONED, Trial(1, 3, poisoned=True), "repro.py failed in 1 of 3 runs"),
        ("raise NameError", Trial(0, 1, able=False), "repro.py cannot run here"),
        ("raise SystemExit(125)", Trial(0, 1, able=False), "repro.py cannot run here"),
    ],
)
def test_a_script_runs_once_if_it_fails_and_with_poisoned_memory_if_not(
    tmp_path, script, found, words
):
    (tmp_path / SCRIPT).write_text(script)
    trial = tried(tmp_path, finding(), REGISTRY)
    assert trial == found and str(trial) == words


def test_a_hang_and_what_has_no_script_are_not_tried(tmp_path):
    assert tried(tmp_path, finding(), REGISTRY) is None
    (tmp_path / SCRIPT).write_text("raise SystemExit(1)")
    assert tried(tmp_path, finding(OutcomeKind.TIMEOUT), REGISTRY) is None


def test_a_title_changes_neither_hash_nor_parts(finding_of):
    finding = finding_of("planted,bug=value")
    named = with_title(finding).signature
    assert named.hash == finding.signature.hash and named.parts == finding.signature.parts
    assert "wrong values" in named.title
