"""Findings of a campaign as permanent tests: they fail today and pass once the bug is fixed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nnfuzz.base.reading import Unreadable
from nnfuzz.corpus.pick import FindingTest
from nnfuzz.corpus.producers import Producers
from nnfuzz.findings.folder import REDUCED, folder_name, read_finding
from nnfuzz.materialize.opsets import DYNAMIC
from nnfuzz.records.finding import Finding


def reduced_findings(campaign: Path) -> Iterator[Path]:
    """The folders of a campaign's reduced findings, which are all confirmed.

    Raises: Unreadable if there is no campaign.
    """
    findings = campaign / "findings"
    if not findings.is_dir():
        raise Unreadable(f"{campaign} is no campaign: there is no folder findings in it")
    yield from sorted(path.parent for path in findings.glob(f"*/{REDUCED}/finding.json"))


def test_of_finding(folder: Path, producers: Producers) -> FindingTest | str:
    """Makes a test of a reduced finding, or returns why there is none. Raises: Unreadable."""
    finding = read_finding(folder)
    if why := _unfit(finding):
        return why
    entry = producers.completed(finding.case)
    if isinstance(entry, str):
        return entry
    return FindingTest(entry, f"test_{folder_name(finding.failure).replace('-', '_')}")


def _unfit(finding: Finding) -> str:
    if not finding.case.model:
        return "an exporter's finding has no model"
    if finding.case.exporter == DYNAMIC:
        return "its model is run at several sizes, which no test can say"
    return ""
