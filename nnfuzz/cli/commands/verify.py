"""`nnfuzz verify DIR --backend NAME`: a folder of ONNX backend tests against a compiler."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.ci import JUnit, SummaryMd, shard, write_json, write_reports
from nnfuzz.cli.errors import FINDINGS, NOT_COMPARED, OK
from nnfuzz.cli.options import AMOUNT, OTHERS, REPORTED, TESTED, Levels, Plugins
from nnfuzz.cli.values import duration, listed

if TYPE_CHECKING:
    from nnfuzz.corpus.verify import LevelResult

MOST_SKIPPED = 10
_JUDGED = ("passed", "not compared")
_SHOWN = 400  # characters of a message


def verify(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder with ONNX backend tests.", show_default=False),
    ],
    backend: Annotated[
        str,
        TESTED.option(
            "Compiler to run, with options (nnfuzz backends lists both).",
            "NAME[,KEY=VALUE]",
            "--backend",
            "-b",
            show_default=False,
        ),
    ],
    level: Levels = None,
    plugin: Plugins = None,
    known: Annotated[
        Path | None,
        REPORTED.option(
            "Failures that do not count: in each line the name of a test, with * and ?, then "
            "backend=, level= or kind=.",
            "FILE",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        REPORTED.option("An earlier file of --results: failures in it do not count.", "FILE"),
    ] = None,
    results: Annotated[Path | None, REPORTED.option("Write the results as JSON.", "FILE")] = None,
    findings: Annotated[
        Path | None,
        OTHERS.option(
            "Write each failure as a folder into OUT, for nnfuzz reduce and nnfuzz replay.", "OUT"
        ),
    ] = None,
    junit: JUnit = None,
    summary_md: SummaryMd = None,
    part: Annotated[
        str | None,
        AMOUNT.option("Run the K-th of N parts of the models.", "K/N", "--shard"),
    ] = None,
    time: Annotated[
        str | None,
        AMOUNT.option("Begin no further model after this long; skip the rest.", "10m"),
    ] = None,
) -> None:
    """Run a folder of models against a compiler. Exit code 1 if any fails.

    \b
    nnfuzz verify models --backend tvm
    nnfuzz verify models -b tvm --findings found && nnfuzz reduce found/FINDING

    Models that nnfuzz generate has written are judged by the error envelope of their graph, others
    by the tolerances of their data.json or usual ones. A model that the compiler itself calls
    unsupported is skipped. Exit codes: 0 nothing fails but known failures, 1 a model fails or could
    not be run, 2 wrong usage, 3 a fault of nnfuzz itself, 4 nothing that ran could be compared.
    """
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.cli.corpus import save_failures
    from nnfuzz.cli.progress import steps
    from nnfuzz.corpus.known import KnownTestFailures, load, to_json
    from nnfuzz.corpus.known import baseline as earlier
    from nnfuzz.corpus.layout import tests_in
    from nnfuzz.corpus.verify import verify as run

    patterns = load(known) if known is not None else ()
    expected = KnownTestFailures(patterns, earlier(baseline) if baseline is not None else None)
    chosen = shard(part)
    seconds = duration(time) if time is not None else math.inf
    spec = BackendRegistry.discover(plugin or []).parse(backend)
    tests = [test for index, test in enumerate(tests_in(folder)) if chosen.owns(index)]
    keep = partial(save_failures, findings) if findings else None
    verified = run(tests, spec, listed(level), expected.judge, seconds, _show, steps, keep)
    if results is not None:
        about = {"backend": str(spec), "folder": folder.resolve().name}
        write_json(results, to_json(verified, about))
    title = f"{folder.resolve().name}: {spec}" + (f", part {part}" if part else "")
    write_reports(verified, title, title, (), junit, summary_md)
    _summary(verified)
    raise typer.Exit(_exit_code(verified))


def _exit_code(results: Sequence[LevelResult]) -> int:
    """The exit code; prints as the last line how much was not compared."""
    statuses = Counter(result.status.value for result in results)
    lost = statuses["not compared"]
    if lost:
        counted = f"{lost} of {len(results)} results are neither right nor wrong"
        typer.echo(f"not compared: {counted}, since nothing of them is comparable")
    if statuses["failed"] or statuses["error"]:
        return FINDINGS
    return NOT_COMPARED if lost and not (statuses["passed"] or statuses["known"]) else OK


def _show(results: Sequence[LevelResult]) -> None:
    for result in results:
        where = f"{result.test} {result.backend} {result.level}"
        typer.echo(f"{result.status.upper()} {where}: {_brief(result.message)}")


def _brief(message: str) -> str:
    """The beginning of a message, in one line."""
    return " ".join(message.split())[:_SHOWN]


def _summary(results: Sequence[LevelResult]) -> None:
    by_level: dict[str, dict[str, int]] = {}
    for result in results:
        counts = by_level.setdefault(f"{result.backend} {result.level}", {})
        counts[result.status.value] = counts.get(result.status.value, 0) + 1
    for level, counts in by_level.items():
        typer.echo(f"{level}: " + ", ".join(f"{n} {status}" for status, n in counts.items()))
    partly = {r.test: r.message for r in results if r.message and r.status in _JUDGED}
    for test, message in list(partly.items())[:MOST_SKIPPED]:
        typer.echo(f"{test}: {_brief(message)}")
    skipped = Counter(_brief(r.message) for r in results if r.status == "skipped")
    for message, count in skipped.most_common(MOST_SKIPPED):
        typer.echo(f"skipped {count}x: {message}")
    if (more := len(skipped) - MOST_SKIPPED) > 0:
        typer.echo(f"... and for {more} more reasons (--results has them all)")
