"""`nnfuzz verify DIR --backend NAME`: a folder of ONNX backend tests against a compiler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli import completion
from nnfuzz.cli.errors import FINDINGS, OK, UsageError, writing
from nnfuzz.cli.options import Levels, Plugins
from nnfuzz.cli.values import listed

if TYPE_CHECKING:
    from nnfuzz.corpus.layout import TestFolder
    from nnfuzz.corpus.verify import Result, Tolerance
    from nnfuzz.execute.registry import BackendSpec
    from nnfuzz.experiment.blocking import Judge

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
    rtol: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="X",
            help="Relative tolerance, instead of the envelope [default: by dtype].",
        ),
    ] = None,
    atol: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="X",
            help="Absolute tolerance, instead of the envelope [default: by dtype].",
        ),
    ] = None,
) -> None:
    """Run a folder of models against a compiler. Exit code 1 if any fails.

    \b
    nnfuzz verify models --backend tvm
    nnfuzz verify onnx/backend/test/data/node --backend onnxruntime --junit results.xml

    Models that nnfuzz generate has written are judged by the error envelope of their graph, unless
    --rtol or --atol is given. Others need to agree to rtol, atol of 1e-6, 1e-7 (float64), 1e-3,
    1e-6 (float32), 1e-2, 1e-3 (float16) or 5e-2, 1e-2 (bfloat16), discrete values exactly. What
    the compiler says it does not support is skipped.
    """
    from nnfuzz.corpus.verify import Tolerance
    from nnfuzz.execute.registry import BackendRegistry

    spec = BackendRegistry.discover(plugin or []).parse(backend)
    tests = _tests(folder)
    results = _run(tests, spec, listed(level), Tolerance(rtol, atol), folder)
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
    tolerance: Tolerance,
    folder: Path,
) -> list[Result]:
    from nnfuzz.cli.steps import steps
    from nnfuzz.corpus.verify import verify as run
    from nnfuzz.execute.runner import BackendRunner

    own = tolerance.rtol is None and tolerance.atol is None and any(_is_ours(t) for t in tests)
    results: list[Result] = []
    with (
        BackendRunner(spec) as runner,
        _judging(tests, spec) if own else nullcontext() as judge,
        steps("tests", len(tests)) as advance,
    ):
        for found in run(tests, runner, judge, levels, tolerance):
            results += found
            _show([r for r in found if r.status in ("failed", "error")])
            failed = sum(r.status in ("failed", "error") for r in results)
            advance(f"{failed} failed" if failed else "")
    return results


def _judging(tests: Sequence[TestFolder], spec: BackendSpec) -> AbstractContextManager[Judge]:
    """A context that yields a function that judges outputs by the envelope, in a producer."""
    from contextlib import contextmanager

    from nnfuzz.testcase.case import CaseConfig
    from nnfuzz.testcase.client import ProducerClient

    @contextmanager
    def judging() -> Iterator[Judge]:
        config = CaseConfig(exporter="direct", plugins=tuple(spec.plugins))
        with ProducerClient(0, config.to_json()) as producer:
            yield producer.judge

    return judging()


def _is_ours(test: TestFolder) -> bool:
    from nnfuzz.corpus.layout import CASE

    return (test.path / CASE).exists()


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
