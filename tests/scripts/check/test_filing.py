"""Filing is asked about pairs of one cause, and beside findings of all other causes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnfuzz.findings.folder import folder_name, write_finding
from scripts.check.filing import Before, Caused, pairs
from scripts.check.triage import Row
from tests.bugs.conftest import case, finding_of, registry, runner_of, server

__all__ = ["case", "finding_of", "registry", "runner_of", "server"]


@pytest.fixture
def found(finding_of, tmp_path):
    """Two findings of one compiler by the names of their planted bugs."""
    rows = []
    for bug in ("raise", "value"):
        finding = finding_of(f"planted,bug={bug}")
        folder = tmp_path / folder_name(finding.failure)
        write_finding(folder, finding)
        rows.append(Caused(Row({"signature": bug, "title": bug}, folder), bug))
    return rows


def test_one_cause_is_refused_and_another_one_is_not(found, registry):
    answers = list(pairs(found, found, registry))
    assert [answer.before for answer in answers] == list(Before) * 2
    assert all(answer.is_wanted for answer in answers)
    assert "https://example.org/raise" in answers[0].refusal


def test_all_findings_of_a_cause_are_filed_or_one_alone(found, registry):
    same = [replace(each, cause="same") for each in found]
    answers = list(pairs(same, same, registry))
    alone = [answer.is_wanted for answer in answers if answer.before is Before.ALONE]
    assert sorted(alone) == [False, False, True, True]
    assert all(answer.is_wanted for answer in answers if answer.before is not Before.ALONE)
