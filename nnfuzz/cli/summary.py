"""The text on the terminal at the end of a campaign."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nnfuzz.cli.values import spoken
from nnfuzz.feedback.throttle import by_operator
from nnfuzz.records.observer import counted

if TYPE_CHECKING:
    from nnfuzz.campaign.session import CampaignResult
    from nnfuzz.records.config import CampaignConfig
    from nnfuzz.records.rows import FindingRow
    from nnfuzz.store.changes import Changes
    from nnfuzz.store.summary import Summary

MOST_ROWS = 40
MOST_FLAKY = MOST_HANGS = 5
OTHERS = ("exporter", "reference")
"""Accused parties (nnfuzz.compare.flip.Blame.accused) that are no part of the compiler."""
WHY = {
    "generate": " (no graph)",
    "inputs": " (no inputs that PyTorch computes with)",
    "export": " (the exporter failed)",
    "fault": " (faults of nnfuzz)",
}
MOST_AVOIDED = 3
COMPARED = ("ok", "mismatch")
"""The outcomes of runs whose outputs were compared."""
MOST_REFUSED = 1 / 3
"""Share of the runs that are not supported, above which the summary names a fix."""


def print_summary(result: CampaignResult, config: CampaignConfig) -> None:
    """Prints outcomes, notes, findings, the places of files, and the next commands."""
    s = result.summary
    print(
        f"\n{counted(s.tests, 'test')} in {spoken(s.seconds)} "
        f"({s.tests_per_second:.1f}/s), {s.sut_share:.0%} of the time in compilers, "
        f"seed {s.seed}"
    )
    for backend, counts in s.outcomes_by_backend.items():
        print(f"  {backend}: {', '.join(f'{kind} {count}' for kind, count in counts.items())}")
    for text in (*_compared(s), *_notes(s)):
        print(f"  {text}")
    print()
    if s.unconfirmed_hangs and not result.findings:
        print("nothing found so far that is confirmed")
    elif s.tests and not result.findings and not _any_compared(s):
        print("nothing was compared, so nothing could be found")
    elif s.tests or result.findings:
        for text in findings_table(result.folder, result.findings):
            print(text)
    for text in _left_out(s, config):
        print(text)
    print(f"summary: {result.folder / 'summary.json'}")
    for text in _next(result):
        print(text)


def _any_compared(summary: Summary) -> bool:
    """Whether some run gave outputs to compare, or none was to give any."""
    counts = summary.outcomes_by_backend.values()
    return summary.refusals is not None or any(
        count.get(kind) for count in counts for kind in COMPARED
    )


def _compared(summary: Summary) -> Iterator[str]:
    """Lines on how many runs gave outputs to compare, with the fix where many gave none."""
    if summary.refusals is not None:
        return
    for backend, counts in summary.outcomes_by_backend.items():
        runs = sum(counts.values())
        compared, refused = sum(counts.get(k, 0) for k in COMPARED), counts.get("unsupported", 0)
        if compared < runs:
            yield (
                f"{backend}: outputs of {compared} of {counted(runs, 'run')} were compared, "
                f"{refused} not supported, {runs - compared - refused} gave none"
            )
        if refused > MOST_REFUSED * runs:
            yield (
                f"{backend} refused {refused / runs:.0%} of its runs, so little of it was tested: "
                "choose other dtypes, another --exporter or another --set opset=N; "
                f"nnfuzz ops --backend {backend.partition(',')[0]} lists what it lacks"
            )


def findings_table(folder: Path, findings: Iterable[FindingRow]) -> Iterator[str]:
    """Some lines for each finding, in the given order."""
    rows = list(findings)
    if not rows:
        yield "nothing found"
        return
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(r.kind for r in rows).items())
    yield f"{counted(len(rows), 'unique finding')} ({kinds}) in {folder}:"
    for row in rows[:MOST_ROWS]:
        yield f"{row.occurrences:>6}x {row.title}"
        yield from (f"        {text}" for text in _details(row))
        yield f"        {row.folder}"
    if rest := rows[MOST_ROWS:]:
        more = ", ".join(f"{n} {kind}" for kind, n in Counter(row.kind for row in rest).items())
        yield f"        ... and {len(rest)} more ({more}): nnfuzz report {shlex.quote(str(folder))}"


def _details(row: FindingRow) -> Iterator[str]:
    """Lines on a finding: its reduced pattern, merged signatures, differing levels."""
    if row.party in OTHERS:
        yield f"accused: the {row.party}, and not the compiler"
    if row.nodes:
        yield f"reduced {row.nodes[0]} -> {row.nodes[1]} nodes: {row.pattern}"
    if row.others:
        yield f"with {counted(len(row.others), 'further signature')}: {row.others_in_words}"
    if len(row.backends) > 1:
        yield f"with {' and '.join(row.backends)}"
    if len(row.by_levels) > 1:
        counts = [f"{count}x {levels}" for levels, count in row.by_levels.items()]
        yield f"at {'; '.join(counts)}"


def _notes(summary: Summary) -> list[str]:
    notes = []
    not_run = summary.not_run
    if not_run:
        reasons = ", ".join(
            f"{stage} {count}{WHY.get(stage, '')}" for stage, count in not_run.items()
        )
        count = summary.tests + sum(not_run.values())
        notes.append(f"no test case: {reasons}; of {count} indexes, which --tests counts")
    if summary.faults:
        notes.append(
            f"{counted(summary.faults, 'fault')} of nnfuzz or of an adapter, kept in the table "
            "`events` of campaign.sqlite: mend the adapter, or please report them"
        )
    for backend, habits in summary.habits.items():
        notes += [f"{backend}: {habit}" for habit in habits]
    if summary.by_design:
        notes.append(f"{counted(summary.by_design, 'failure')} by design of the compiler")
    if summary.flaky:
        notes.append(
            f"{counted(summary.flaky, 'failure')} did not repeat in fresh workers (flaky):"
        )
        notes += [
            f"  {row.title}: {row.repeated} of {row.tried} repetitions failed"
            for row in summary.flaky_failures[:MOST_FLAKY]
        ]
    if hangs := summary.unconfirmed_hangs:
        notes.append(
            f"{counted(len(hangs), 'suspected hang')} could not be confirmed in time: --resume "
            "goes on with them:"
        )
        notes += [
            f"  {row.backend} {row.level}: no end of {row.stage} of {row.test} after "
            f"{row.seconds:.0f} s"
            for row in hangs[:MOST_HANGS]
        ]
    if changed := summary.regressions:
        notes.append(_changes(changed))
    if summary.known:
        notes.append(f"{counted(summary.known, 'occurrence')} of known failures")
    if unseen := summary.known_unseen:
        notes.append(
            f"{counted(len(unseen), 'known failure')} never occurred and may be fixed by now "
            "(known_unseen in summary.json)"
        )
    if summary.not_reduced:
        notes.append(
            f"{counted(len(summary.not_reduced), 'finding')} could not be reduced (summary.json)"
        )
    return notes


def _changes(changed: Changes) -> str:
    older, newer = changed.older, changed.newer
    return (
        f"{counted(len(changed.regressions), 'regression')} (right in {older}, wrong in {newer})"
        f", {len(changed.fixed)} fixed (the other way round); "
        f"{counted(changed.unchanged, 'failure')} where neither is right"
    )


def _left_out(summary: Summary, config: CampaignConfig) -> list[str]:
    """Lines on the items that generation avoids, has come back to (a few of each), and refuses."""
    notes = []
    if avoided := summary.avoided:
        items = by_operator(avoided)
        notes.append(
            f"generation keeps away from what fails by itself, {counted(len(items), 'item')}: "
            f"{_few(items)} (avoided in summary.json)"
        )
    if lifted := summary.avoided_before:
        notes.append(
            f"{counted(len(lifted), 'item')} no longer failing and generated again: "
            f"{_few(row.item for row in lifted)} (avoided_before in summary.json)"
        )
    if summary.refused:
        names = " ".join(f"--backend {spec.name}" for spec in config.backends)
        notes.append(
            f"{summary.refused} operators or signatures left out, not supported: nnfuzz ops {names}"
        )
    return notes


def _few(names: Iterable[str]) -> str:
    """The first of some names."""
    listed = list(names)
    return ", ".join([*listed[:MOST_AVOIDED], *(["..."] if listed[MOST_AVOIDED:] else [])])


def _next(result: CampaignResult) -> list[str]:
    if not result.findings:
        return []
    folder = result.folder / result.findings[0].folder
    lines = [f"next: nnfuzz replay {shlex.quote(str(folder))}"]
    if result.summary.unreduced and result.summary.refusals is None:
        minutes = math.ceil(result.summary.reduce_seconds_missing / 60)
        lines.append(
            f"      nnfuzz reduce {shlex.quote(str(result.folder))} "
            f"({counted(result.summary.unreduced, 'finding')} not reduced yet"
            + (f": about {counted(minutes, 'minute')})" if minutes else ")")
        )
    return lines
