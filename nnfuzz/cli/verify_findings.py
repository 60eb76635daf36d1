"""Failures of `nnfuzz verify` as findings, which `nnfuzz reduce` and `nnfuzz replay` take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nnfuzz.cli.errors import tell

if TYPE_CHECKING:
    from nnfuzz.corpus.layout import TestFolder
    from nnfuzz.library.case import TestCase
    from nnfuzz.library.experiment import Experiment, Result

NOT_AGAIN = "nnfuzz's own reference, or a second run, finds nothing wrong with the outputs"


def save_findings(
    out: Path,
    tests: Sequence[TestFolder],
    backend: str,
    levels: Sequence[str],
    plugins: Iterable[Path],
) -> None:
    """Runs the tests once more, and writes a folder into `out` for each way in which one fails.

    The folders are named by signature, so that tests that fail in the same way share one. A test
    without a finding gets a line that says why. Raises: RegistryError, OptionError, OSError.
    """
    from nnfuzz.cli.progress import steps
    from nnfuzz.library.experiment import Experiment

    targets = [f"{backend}/{level}" for level in levels] or [backend]
    with Experiment(targets, plugins) as run, steps("findings", len(tests)) as advance:
        for test in tests:
            saved = sorted({str(path) for path in _saved(out, test, run)})
            for path in saved:
                typer.echo(f"finding of {test.name}: {path}")
            advance("")


def _saved(out: Path, test: TestFolder, run: Experiment) -> Iterator[Path]:
    """The folders of what a test shows, or a line that says why there are none."""
    from nnfuzz.backend.runner import RunnerError
    from nnfuzz.base.reading import Unreadable
    from nnfuzz.testcase.case import ModelError
    from nnfuzz.testcase.client import ProducerError

    try:
        results = [run(case) for case in _cases(test)]
    except (ModelError, ProducerError, RunnerError, Unreadable) as error:
        tell(f"{test.name} gives no finding: {error}")
        return
    if not any(result.failures for result in results):
        tell(f"{test.name} gives no finding: {_why_not(results)}")
    for result in results:
        for failure in result.failures:
            yield failure.finding.save(out)


def _cases(test: TestFolder) -> Iterator[TestCase]:
    """The test case of each data set. Raises: ModelError, Unreadable."""
    from nnfuzz.library.case import TestCase

    own = list(test.cases())
    yield from map(TestCase.of, own)
    for found in () if own else test.data_sets():
        yield TestCase.from_onnx(test.model(), found.inputs)


def _why_not(results: Iterable[Result]) -> str:
    if any(result.flaky for result in results):
        return "it does not fail in the same way every time"
    return NOT_AGAIN
