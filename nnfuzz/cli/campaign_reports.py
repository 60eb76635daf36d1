"""The findings of a campaign as results of tests, for the reports that a CI reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nnfuzz.campaign.observer import counted
from nnfuzz.cli.ci import write_reports
from nnfuzz.cli.values import spoken

if TYPE_CHECKING:
    from nnfuzz.campaign.config import CampaignConfig
    from nnfuzz.campaign.rows import FindingRow
    from nnfuzz.campaign.session import Result
    from nnfuzz.corpus.verify import Result as TestResult


def report_campaign(
    result: Result, config: CampaignConfig, junit: Path | None, summary_md: Path | None
) -> None:
    """Writes the files that were asked for. Raises: UsageError."""
    from nnfuzz.corpus.verify import Result as TestResult
    from nnfuzz.corpus.verify import Status

    s = result.summary
    names = " and ".join(str(spec) for spec in config.backends)
    what = f"{counted(s['tests'], 'test')} in {spoken(s['seconds'])}, seed {s['seed']}"
    status = Status.PASSED if s["tests"] else Status.ERROR
    ran = TestResult("campaign", names, "", status, seconds=s["seconds"])
    found = [_of(row, result.folder) for row in result.findings]
    notes = [f"{counted(s['known'], 'occurrence')} of known failures"] if s["known"] else []
    if (unseen := s["known_unseen"]) and not config.case.seed_models:  # of these, few models occur
        notes.append(f"{counted(len(unseen), 'known failure')} never occurred (summary.json)")
    notes += [f"{counted(s['faults'], 'fault')} of nnfuzz itself"] if s["faults"] else []
    write_reports([ran, *found], f"nnfuzz fuzz {names}: {what}", notes, junit, summary_md)


def _of(row: FindingRow, folder: Path) -> TestResult:
    from nnfuzz.corpus.verify import Result as TestResult
    from nnfuzz.corpus.verify import Status
    from nnfuzz.report.finding_folder import smallest
    from nnfuzz.untrusted import read_text

    pattern = f"reduced to {row.pattern}" if row.pattern else "not reduced yet"
    details = f"{row.title}\n{pattern}, {row.occurrences} times\n{folder / row.folder}"
    report = smallest(folder / row.folder) / "report.md"
    if report.is_file():
        details += f"\n\n{read_text(report)}"
    name = f"{row.kind} {row.refined or row.signature}"
    levels = ", ".join(row.by_levels)
    message = f"{row.title} ({pattern}; {row.folder})"
    return TestResult(name, row.backend, levels, Status.FAILED, message, details, 0.0, row.kind)
