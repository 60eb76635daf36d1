"""Titles of reduced findings, and the run of a repro.py before its finding is reported."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.findings.reduced import SCRIPT, doubts, with_title

REGISTRY = BackendRegistry.discover()


def finding(kind=OutcomeKind.MISMATCH):
    """What a trial asks of a finding."""
    return SimpleNamespace(
        backend=REGISTRY.parse("onnxruntime"), failure=SimpleNamespace(kind=kind)
    )


POISONED = "import os, sys; print(1); sys.exit(os.environ.get('MALLOC_PERTURB_') == '170')"


@pytest.mark.parametrize(
    "script, words",
    [
        ("print(1); raise SystemExit(1)", ""),
        ("import os; os.abort()", ""),
        ("", "does not reproduce: repro.py failed in 0 of 3 runs"),
        (POISONED, "repro.py failed in 1 of 3 runs"),
        ("raise NameError", "repro.py cannot run here"),
        ("raise SystemExit(125)", "repro.py cannot run here"),
    ],
)
def test_a_script_runs_once_if_it_fails_and_with_poisoned_memory_if_not(tmp_path, script, words):
    (tmp_path / SCRIPT).write_text(script)
    assert doubts(tmp_path, finding(), REGISTRY) == words


def test_a_hang_and_what_has_no_script_are_not_tried(tmp_path):
    assert doubts(tmp_path, finding(), REGISTRY) == ""
    (tmp_path / SCRIPT).write_text("")
    assert doubts(tmp_path, finding(OutcomeKind.TIMEOUT), REGISTRY) == ""


def test_a_title_changes_neither_hash_nor_parts(finding_of):
    finding = finding_of("planted,bug=value")
    named = with_title(finding).signature
    assert named.hash == finding.signature.hash and named.parts == finding.signature.parts
    assert "wrong values" in named.title and named.title.startswith("planted: ")
    accused = replace(finding, localisation={"party": "exporter"})
    assert with_title(accused).signature.title.startswith("direct with planted: ")
