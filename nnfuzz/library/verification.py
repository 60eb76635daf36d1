"""Folders of ONNX backend tests against a compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from nnfuzz.backend.registry import BackendSpec
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.corpus.known import KnownTestFailures
from nnfuzz.corpus.layout import CASE, CorpusError, TestFolder, find_tests
from nnfuzz.corpus.verify import LevelResult, Status, verify_tests
from nnfuzz.library.case import case_from_onnx
from nnfuzz.library.experiment import Experiment, save_finding
from nnfuzz.library.steps import Steps, no_steps
from nnfuzz.testcase.case import CaseConfig, ModelError, TestCase
from nnfuzz.testcase.client import ProducerClient, ProducerError

BAD = (Status.FAILED, Status.ERROR)
FLAKY = "it does not fail in the same way every time"
NOT_AGAIN = "nnfuzz's own reference, or a second run, finds nothing wrong with the outputs"


def tests_in(folder: Path) -> list[TestFolder]:
    """All tests below a folder. Raises: CorpusError, which names the fix, if there is none."""
    if folder.is_file() and folder.suffix == ".onnx":
        raise CorpusError(
            f"{folder} is a model, and verify takes folders of models with expected outputs: "
            f"nnfuzz check {folder} runs a model of your own"
        )
    tests = find_tests(folder)
    if not tests:
        raise CorpusError(
            f"{folder} holds no tests: a test is a folder with model.onnx and test_data_set_0"
        )
    return tests


def verify(
    tests: Sequence[TestFolder],
    spec: BackendSpec,
    levels: Sequence[str],
    known: KnownTestFailures,
    seconds: float,
    show: Callable[[Sequence[LevelResult]], None],
    steps: Steps = no_steps,
) -> list[LevelResult]:
    """The results of all tests. seconds: after which no further test begins. show: is called with
    the results that are bad as they come. Raises: RunnerError, ProducerError, OptionError.
    """
    config = as_json(CaseConfig(exporter="direct", plugins=tuple(spec.plugins)))
    ours = any((test.path / CASE).exists() for test in tests)
    results: list[LevelResult] = []
    with (
        BackendRunner(spec) as runner,
        ProducerClient(0, config) if ours else nullcontext() as producer,
        steps("tests", len(tests)) as advance,
    ):
        judge = producer.judge if producer else None
        for results_of_test in verify_tests(tests, runner, judge, levels, seconds, producer):
            judged = list(map(known.judge, results_of_test))
            results += judged
            show([r for r in judged if r.status in BAD])
            failed = sum(r.status in BAD for r in results)
            advance(f"{failed} failed" if failed else "")
    return results


def save_failures(
    out: Path,
    tests: Sequence[TestFolder],
    backend: str,
    levels: Sequence[str],
    plugins: Iterable[Path],
    steps: Steps = no_steps,
) -> Iterator[tuple[TestFolder, list[Path], str]]:
    """Runs the tests once more, and writes a folder into `out` for each way in which one fails.

    Yields each test with its folders, and why there are none. The folders are named by signature,
    so that tests that fail in the same way share one. Raises: RegistryError, OptionError, OSError.
    """
    targets = [f"{backend}/{level}" for level in levels] or [backend]
    with Experiment(targets, plugins) as run, steps("findings", len(tests)) as advance:
        for test in tests:
            try:
                results = [run(case) for case in _cases(test)]
            except (ModelError, ProducerError, RunnerError, Unreadable) as error:
                yield test, [], str(error)
            else:
                found = [finding for result in results for finding in run.findings(result)]
                saved = sorted({save_finding(finding, out) for finding in found})
                flaky = any(result.flaky for result in results)
                yield test, saved, "" if saved else FLAKY if flaky else NOT_AGAIN
            advance("")


def _cases(test: TestFolder) -> Iterator[TestCase]:
    """The test case of each data set. Raises: ModelError, Unreadable."""
    own = list(test.cases())
    yield from own
    for data in () if own else test.data_sets():
        yield case_from_onnx(test.model(), data.inputs)
