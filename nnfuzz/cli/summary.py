"""What the terminal shows at the end of a campaign."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nnfuzz.cli.values import spoken

if TYPE_CHECKING:
    from nnfuzz.campaign.config import CampaignConfig
    from nnfuzz.campaign.session import Result

MOST_ROWS = 40
MOST_FLAKY = 5


def print_summary(result: Result, config: CampaignConfig) -> None:
    """Findings, outcomes, notes on support, where everything is, and what to type next."""
    s = result.summary
    print(
        f"\n{s['tests']} tests in {spoken(s['seconds'])} ({s['tests_per_second']:.1f}/s), "
        f"{s['sut_share']:.0%} of the time in compilers, seed {s['seed']}"
    )
    for backend, counts in s["outcomes_by_backend"].items():
        print(f"  {backend}: {', '.join(f'{kind} {count}' for kind, count in counts.items())}")
    for text in _notes(s, config):
        print(f"  {text}")
    print()
    for text in _findings(result):
        print(text)
    print(f"summary: {result.folder / 'summary.json'}")
    for text in _next(result):
        print(text)


def _findings(result: Result) -> Iterator[str]:
    """Two lines for each, the most frequent first."""
    rows = sorted(result.findings, key=lambda row: -row.occurrences)
    if not rows:
        yield "nothing found"
        return
    yield f"{len(rows)} unique findings in {result.folder}:"
    for row in rows[:MOST_ROWS]:
        yield f"{row.occurrences:>6}x {row.title}"
        yield f"        {row.folder}"
    if len(rows) > MOST_ROWS:
        yield f"        ... and {len(rows) - MOST_ROWS} more"


def _notes(summary: dict[str, Any], config: CampaignConfig) -> list[str]:
    notes = []
    not_run = summary["not_run"]
    if not_run:
        shown = ", ".join(f"{stage} {count}" for stage, count in not_run.items())
        notes.append(f"no test case: {shown}")
    if summary["faults"]:
        notes.append(
            f"{summary['faults']} faults of nnfuzz itself, kept in the table `events` of "
            "campaign.sqlite: please report them"
        )
    if summary["flaky"]:
        notes.append(f"{summary['flaky']} failures did not repeat in fresh workers (flaky):")
        notes += [
            f"  {row['title']}: {row['repeated']} of {row['tried']} repetitions failed"
            for row in summary["flaky_failures"][:MOST_FLAKY]
        ]
    if summary["known"]:
        notes.append(f"{summary['known']} occurrences of known failures")
    for signature in summary["known_unseen"]:
        notes.append(f"the known failure {signature} never occurred: it may be fixed by now")
    if summary["refused"]:
        names = " ".join(f"--backend {spec.name}" for spec in config.backends)
        notes.append(
            f"{summary['refused']} operator signatures are not supported and were left out: "
            f"nnfuzz ops {names}"
        )
    return notes


def _next(result: Result) -> list[str]:
    if not result.findings:
        return []
    first = min(result.findings, key=lambda row: row.found_at)
    return [f"next: nnfuzz replay {shlex.quote(str(result.folder / first.folder))}"]
