"""The files that a command writes for a continuous-integration server, and the options of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nnfuzz.base.shard import Shard
from nnfuzz.cli.errors import UsageError, writing
from nnfuzz.cli.options import REPORTED
from nnfuzz.cli.values import spoken

if TYPE_CHECKING:
    from nnfuzz.campaign.session import CampaignResult
    from nnfuzz.corpus.verify import LevelResult
    from nnfuzz.records.config import CampaignConfig
    from nnfuzz.records.rows import FindingRow

JUnit = Annotated[
    Path | None,
    REPORTED.option("Write the results as JUnit XML.", "FILE"),
]
SummaryMd = Annotated[
    Path | None,
    REPORTED.option(
        "Write them as Markdown, such as the summary of a job: $GITHUB_STEP_SUMMARY.",
        "FILE",
        "--summary-md",
    ),
]


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
    from nnfuzz.corpus.junit import junit_xml
    from nnfuzz.corpus.markdown import results_page

    if junit is not None:
        write_whole(junit, junit_xml(results, suite))
    if summary_md is not None:
        write_whole(summary_md, results_page(results, title, notes).encode("utf-8", "replace"))


def write_whole(file: Path, data: bytes) -> None:
    """Writes a file whole, with the folders that it needs; a pipe or device as it is.

    Raises: UsageError.
    """
    from nnfuzz.base.files import write_atomically

    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_file():
            file.write_bytes(data)
        else:
            write_atomically(file, data)


def write_json(file: Path, data: object) -> None:
    """Writes data as `write_whole` does. Raises: UsageError."""
    write_whole(file, json.dumps(data, indent=1, default=str).encode() + b"\n")


def shard(text: str | None) -> Shard:
    """The shard of --shard; everything by default. Raises: UsageError."""
    try:
        return Shard() if text is None else Shard.parse(text)
    except ValueError as error:
        raise UsageError(f"--shard {error}") from error


LONGEST = 100
"""Characters of a name without the hash."""


def report_campaign(
    result: CampaignResult, config: CampaignConfig, junit: Path | None, summary_md: Path | None
) -> None:
    """Writes the requested files. Raises: UsageError."""
    from nnfuzz.corpus.verify import LevelResult, Status
    from nnfuzz.records.observer import counted

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
    if (unseen := s.known_unseen) and not config.case.seed_models:  # of these, few models occur
        notes.append(f"{counted(len(unseen), 'known failure')} never occurred (summary.json)")
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
    from nnfuzz.base.untrusted import read_text
    from nnfuzz.corpus.verify import LevelResult, Status
    from nnfuzz.findings.folder import smallest

    pattern = f"reduced to {row.pattern}" if row.cause else "not reduced yet"
    details = f"{row.title}\n{pattern}, {row.occurrences} times\n{folder / row.folder}"
    report = smallest(folder / row.folder) / "report.md"
    if report.is_file():
        details += f"\n\n{read_text(report)}"
    message = f"{row.title} ({pattern}; {row.folder})"  # the title names the levels
    return LevelResult(name, row.backend, "", Status.FAILED, message, details, 0.0, row.kind)
