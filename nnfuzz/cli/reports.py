"""The results of campaigns and of other tests: as text on a terminal, and as files for a CI."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nnfuzz.base.untrusted import read_text
from nnfuzz.campaign.session import CampaignResult
from nnfuzz.cli.errors import spoken, write_whole
from nnfuzz.corpus.results import LevelResult, Status, junit_xml, results_page
from nnfuzz.feedback.throttle import by_operator
from nnfuzz.findings.folder import smallest
from nnfuzz.findings.text import environment
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import counted
from nnfuzz.records.rows import FindingRow
from nnfuzz.store.summary import Summary

MOST_ROWS = 40
MOST_NAMED = 3
WHY = {
    "generate": " (no graph)",
    "inputs": " (no inputs that PyTorch computes with)",
    "export": " (the exporter failed)",
    "fault": " (faults of nnfuzz)",
}
COMPARED = ("ok", "mismatch")
"""The outcomes of runs whose outputs were compared."""


def summary_text(result: CampaignResult, config: CampaignConfig) -> str:
    """Outcomes, notes, findings, the places of files, and the next commands."""
    s = result.summary
    return _rendered(
        "summary.txt.jinja",
        result.folder,
        result.findings,
        s=s,
        config=config,
        why=WHY,
        compared_any=_any_compared(s),
        avoided=by_operator(s.avoided),
    )


def findings_text(folder: Path, findings: Sequence[FindingRow]) -> str:
    """Some lines for each finding, in the given order."""
    return _rendered("findings.txt.jinja", folder, findings)


def _rendered(template: str, folder: Path, findings: Sequence[FindingRow], **more: Any) -> str:
    return (
        environment()
        .get_template(template)
        .render(
            folder=folder,
            findings=findings,
            most=MOST_ROWS,
            counted=counted,
            spoken=spoken,
            few=_few,
            kinds=_kinds,
            named_counts=_named_counts,
            quote=_quoted,
            **more,
        )
    )


def _quoted(path: object) -> str:
    """A path as a shell takes it, which looks like no option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def _any_compared(summary: Summary) -> bool:
    """Whether some run gave outputs to compare, or none was to give any."""
    counts = summary.outcomes_by_backend.values()
    return summary.refusals is not None or any(c.get(kind) for c in counts for kind in COMPARED)


def _kinds(rows: Iterable[FindingRow]) -> str:
    counts = Counter(row.kind for row in rows)
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _named_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.items())


def _few(names: Iterable[str]) -> str:
    """The first of some names."""
    listed = list(names)
    return ", ".join([*listed[:MOST_NAMED], *(["..."] if listed[MOST_NAMED:] else [])])


def write_reports(
    results: Sequence[LevelResult],
    suite: str,
    title: str,
    notes: Iterable[str],
    junit: Path | None,
    summary_md: Path | None,
) -> None:
    """Writes the requested files. suite: the name in JUnit, by which a server knows the tests
    of one run again in the next. title: the heading in Markdown. Raises: UsageError.
    """
    if junit is not None:
        write_whole(junit, junit_xml(results, suite))
    if summary_md is not None:
        write_whole(summary_md, results_page(results, title, notes).encode("utf-8", "replace"))


LONGEST = 100
"""Characters of a name without the hash."""


def report_campaign(
    result: CampaignResult, config: CampaignConfig, junit: Path | None, summary_md: Path | None
) -> None:
    """Writes the requested files. Raises: UsageError."""
    s = result.summary
    names = " and ".join(str(spec) for spec in config.backends)
    what = f"{counted(s.tests, 'test')} in {spoken(s.seconds)}, seed {s.seed}"
    status = Status.PASSED if s.tests else Status.ERROR
    ran = LevelResult("campaign", names, "", status, seconds=s.seconds)
    results = [
        _of(row, name, result.folder)
        for row, name in zip(result.findings, test_names(result.findings))
    ]
    notes = [f"{counted(s.known, 'occurrence')} of known failures"] if s.known else []
    notes += [f"{counted(s.faults, 'fault')} of nnfuzz itself"] if s.faults else []
    suite = f"nnfuzz fuzz {names}"
    write_reports([ran, *results], suite, f"{suite}: {what}", notes, junit, summary_md)


def test_names(rows: Sequence[FindingRow]) -> list[str]:
    """A name for each finding, equal in every run that finds it: the compiler and the title without
    its levels, as one word; with the signature's hash where another finding has the same name.
    """
    names = [_slug(row) for row in rows]
    many = {name for name, count in Counter(names).items() if count > 1}
    return [f"{n}-{row.cause or row.signature}" if n in many else n for n, row in zip(names, rows)]


test_names.__test__ = False  # type: ignore[attr-defined]


def _slug(row: FindingRow) -> str:
    """ "tvm-resize-mode-cubic-wrong-values", of whole words."""
    cause = re.sub(r" \([^()]*\)$", "", row.title.removeprefix(f"{row.backend}: "))
    text = "-".join(re.findall(r"[a-z0-9.]+", f"{row.backend} {cause}".lower()))
    return text if len(text) <= LONGEST else text[: LONGEST + 1].rpartition("-")[0]


def _of(row: FindingRow, name: str, folder: Path) -> LevelResult:
    pattern = f"reduced to {row.pattern}" if row.cause else "not reduced yet"
    details = f"{row.title}\n{pattern}, {row.occurrences} times\n{folder / row.folder}"
    report = smallest(folder / row.folder) / "report.md"
    if report.is_file():
        details += f"\n\n{read_text(report)}"
    message = f"{row.title} ({pattern}; {row.folder})"  # the title names the levels
    return LevelResult(name, row.backend, "", Status.FAILED, message, details, 0.0, row.kind)
