"""What a command leaves for a continuous-integration server, and what it takes from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.errors import UsageError, writing

if TYPE_CHECKING:
    from nnfuzz.corpus.verify import Result

JUnit = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the results as JUnit XML."),
]
SummaryMd = Annotated[
    Path | None,
    typer.Option(
        "--summary-md",
        metavar="FILE",
        help="Write them as Markdown, such as the summary of a job: $GITHUB_STEP_SUMMARY.",
    ),
]
_SHARD = re.compile(r"(\d+)/(\d+)")


def write_reports(
    results: Sequence[Result],
    title: str,
    notes: Iterable[str],
    junit: Path | None,
    summary_md: Path | None,
) -> None:
    """Writes those that were asked for. Raises: UsageError."""
    from nnfuzz.corpus.junit import junit_xml
    from nnfuzz.corpus.markdown import markdown

    if junit is not None:
        write(junit, junit_xml(results, title))
    if summary_md is not None:
        write(summary_md, markdown(results, title, notes).encode("utf-8", "replace"))


def write(file: Path, data: bytes) -> None:
    """Writes a file whole, with the folders that it needs; a pipe or device as it is.

    Raises: UsageError.
    """
    from nnfuzz.report.files import write_atomically

    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_file():
            file.write_bytes(data)
        else:
            write_atomically(file, data)


def shard(text: str | None) -> tuple[int, int]:
    """ "2/8" -> (1, 8): the first of the parts is 0. Raises: UsageError."""
    if text is None:
        return 0, 1
    match = _SHARD.fullmatch(text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count:
        raise UsageError(f"--shard {text!r} is none: write 2/8 for the second of eight parts")
    return number - 1, count
