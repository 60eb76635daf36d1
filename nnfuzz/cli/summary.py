"""What the terminal shows at the end of a campaign."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from nnfuzz.cli.values import spoken

if TYPE_CHECKING:
    from nnfuzz.campaign.config import CampaignConfig
    from nnfuzz.campaign.session import Result

MOST_ROWS = 40


def print_summary(result: Result, config: CampaignConfig) -> None:
    """Findings, outcomes, notes on support, where everything is, and what to type next."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    s = result.summary
    console.print(
        f"\n{s['tests']} tests in {spoken(s['seconds'])} ({s['tests_per_second']:.1f}/s), "
        f"{s['sut_share']:.0%} of the time in compilers, seed {s['seed']}",
        markup=False,
    )
    for backend, counts in s["outcomes_by_backend"].items():
        shown = ", ".join(f"{kind} {count}" for kind, count in counts.items())
        console.print(f"  {backend}: {shown}", markup=False)
    for text in _notes(s, config):
        console.print(f"  {text}", markup=False)
    console.print()
    if result.findings:
        _print_findings(console, result)
    else:
        console.print("nothing found")
    console.print(f"summary: {result.folder / 'summary.json'}", markup=False)
    for text in _next(result):
        console.print(text, markup=False)


def _print_findings(console: Any, result: Result) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("times", justify="right")
    table.add_column("finding", overflow="fold")
    table.add_column("folder", overflow="fold")
    rows = sorted(result.findings, key=lambda row: -row.occurrences)
    for row in rows[:MOST_ROWS]:
        table.add_row(str(row.occurrences), Text(row.title), Text(row.folder))
    console.print(f"{len(rows)} unique findings in {result.folder}:", markup=False)
    console.print(table)
    if len(rows) > MOST_ROWS:
        console.print(f"... and {len(rows) - MOST_ROWS} more")


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
        notes.append(f"{summary['flaky']} failures did not repeat in a fresh worker (flaky)")
    if summary["known"]:
        notes.append(f"{summary['known']} occurrences of known failures")
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
