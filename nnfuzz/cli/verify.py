"""`nnfuzz verify DIR --backend NAME`: a folder of ONNX backend tests against a compiler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli import completion
from nnfuzz.cli.errors import FINDINGS, OK, UsageError, writing
from nnfuzz.cli.options import Levels, Plugins
from nnfuzz.cli.values import listed

if TYPE_CHECKING:
    from nnfuzz.corpus.layout import TestFolder
    from nnfuzz.corpus.verify import Result
    from nnfuzz.execute.registry import BackendSpec

MOST_SKIPPED = 10
_SHOWN = 400  # characters of a message


def verify(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder with ONNX backend tests.", show_default=False),
    ],
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            "-b",
            metavar="NAME[,KEY=VALUE]",
            help="Compiler to run, with options (nnfuzz backends lists both).",
            show_default=False,
            autocompletion=completion.backends,
        ),
    ],
    level: Levels = None,
    plugin: Plugins = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the results as JUnit XML, one test case per model and level.",
        ),
    ] = None,
) -> None:
    """Run a folder of models against a compiler. Exit code 1 if any fails.

    \b
    nnfuzz verify models --backend tvm
    nnfuzz verify onnx/backend/test/data/node --backend onnxruntime --junit results.xml

    Models that nnfuzz generate has written are judged by the error envelope of their graph. Others
    need to agree to rtol, atol of 1e-6, 1e-7 (float64), 1e-3, 1e-6 (float32), 1e-2, 1e-3 (float16)
    or 5e-2, 1e-2 (bfloat16), discrete values exactly. What the compiler says it does not support
    is skipped.
    """
    from nnfuzz.execute.registry import BackendRegistry

    spec = BackendRegistry.discover(plugin or []).parse(backend)
    tests = _tests(folder)
    results = _run(tests, spec, listed(level))
    if junit is not None:
        _write_junit(junit, results, folder)
    _summary(results)
    failed = any(r.status in ("failed", "error") for r in results)
    raise typer.Exit(FINDINGS if failed else OK)


def _tests(folder: Path) -> list[TestFolder]:
    from nnfuzz.corpus.layout import find_tests

    tests = find_tests(folder)
    if not tests:
        raise UsageError(
            f"{folder} holds no tests: a test is a folder with model.onnx and test_data_set_0"
        )
    return tests


def _run(
    tests: Sequence[TestFolder],
    spec: BackendSpec,
    levels: Sequence[str],
) -> list[Result]:
    from nnfuzz.cli.progress import steps
    from nnfuzz.corpus.layout import CASE
    from nnfuzz.corpus.verify import verify as run
    from nnfuzz.execute.runner import BackendRunner
    from nnfuzz.testcase.case import CaseConfig
    from nnfuzz.testcase.client import ProducerClient

    config = CaseConfig(exporter="direct", plugins=tuple(spec.plugins)).to_json()
    ours = any((test.path / CASE).exists() for test in tests)
    results: list[Result] = []
    with (
        BackendRunner(spec) as runner,
        ProducerClient(0, config) if ours else nullcontext() as producer,
        steps("tests", len(tests)) as advance,
    ):
        for found in run(tests, runner, producer.judge if producer else None, levels):
            results += found
            _show([r for r in found if r.status in ("failed", "error")])
            failed = sum(r.status in ("failed", "error") for r in results)
            advance(f"{failed} failed" if failed else "")
    return results


def _show(results: Sequence[Result]) -> None:
    for result in results:
        where = f"{result.test} {result.backend} {result.level}"
        typer.echo(f"{result.status.upper()} {where}: {_brief(result.message)}")


def _brief(message: str) -> str:
    """The beginning of a message, in one line."""
    return " ".join(message.split())[:_SHOWN]


def _write_junit(file: Path, results: Sequence[Result], folder: Path) -> None:
    from nnfuzz.corpus.junit import junit_xml
    from nnfuzz.report.files import write_atomically

    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, junit_xml(results, folder.resolve().name))


def _summary(results: Sequence[Result]) -> None:
    by_level: dict[str, dict[str, int]] = {}
    for result in results:
        counts = by_level.setdefault(f"{result.backend} {result.level}", {})
        counts[result.status.value] = counts.get(result.status.value, 0) + 1
    for level, counts in by_level.items():
        typer.echo(f"{level}: " + ", ".join(f"{n} {status}" for status, n in counts.items()))
    skipped = Counter(_brief(r.message) for r in results if r.status == "skipped")
    for message, count in skipped.most_common(MOST_SKIPPED):
        typer.echo(f"skipped {count}x: {message}")
    if len(skipped) > MOST_SKIPPED:
        typer.echo(f"... and for {len(skipped) - MOST_SKIPPED} more reasons (--junit has them all)")
