"""The files that a command writes for a continuous-integration server, and the options of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nnfuzz.base.shard import Shard
from nnfuzz.cli.declared import REPORTED
from nnfuzz.cli.errors import UsageError, writing

if TYPE_CHECKING:
    from nnfuzz.corpus.verify import LevelResult

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


def shard(text: str | None) -> Shard:
    """The shard of --shard; everything by default. Raises: UsageError."""
    try:
        return Shard() if text is None else Shard.parse(text)
    except ValueError as error:
        raise UsageError(f"--shard {error}") from error
