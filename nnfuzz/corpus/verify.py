"""Runs a corpus against a compiler.

Tests that nnfuzz has made are judged by the error envelope of their graph. Others are judged by the
tolerances of their data.json, or else by `TOLERANCES`: floats must satisfy
|actual - expected| <= atol + rtol |expected|; discrete and non-finite values must be equal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.backend.registry import BackendSpec
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.corpus.layout import (
    NO_TOLERANCES,
    DataSet,
    NotTensors,
    TestFolder,
    Tolerance,
    Tolerances,
)
from nnfuzz.corpus.results import BAD, LevelResult, Status
from nnfuzz.experiment.compilers import examine
from nnfuzz.experiment.result import Result
from nnfuzz.ir.dtypes import is_floating
from nnfuzz.ir.sizes import at_size, from_copies, name_and_copy
from nnfuzz.records.observer import Steps
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.client import ProducerClient, ProducerError
from nnfuzz.triage.signature import FAILURES

TOLERANCES: Mapping[str, tuple[float, float]] = {
    "float64": (1e-6, 1e-7),
    "float32": (1e-3, 1e-6),
    "float16": (1e-2, 1e-3),
    "bfloat16": (5e-2, 1e-2),
}
"""(rtol, atol) by dtype. ONNX's own test runner takes 1e-3 and 1e-7 for every dtype."""
OTHER_FLOATS = (1e-1, 1e-1)
"""For the 8-bit floats, whose neighbours differ by up to 25 %."""


NOT_BEGUN = "not begun: the time was over"


Keep = Callable[[TestFolder, Sequence[Result], BackendRunner, ProducerClient, Sequence[str]], None]
"""Takes a test that failed: the results of its experiments, and what they ran with."""


def verify(
    tests: Sequence[TestFolder],
    spec: BackendSpec,
    levels: Sequence[str],
    judged: Callable[[LevelResult], LevelResult],
    seconds: float,
    show: Callable[[Sequence[LevelResult]], None],
    steps: Steps,
    keep: Keep | None = None,
) -> list[LevelResult]:
    """The results of all tests, one per level; by default at the backend's usual levels.

    judged: marks known failures. seconds: time after which no further test begins; the remaining
    ones are skipped. show: receives the results that are bad as they come. keep: called with each
    test that failed.
    Raises: RunnerError, ProducerError; OptionError for an unknown level.
    """
    config = as_json(CaseConfig(exporter="direct", plugins=tuple(spec.plugins)))
    results: list[LevelResult] = []
    failed = 0
    with (
        BackendRunner(spec) as runner,
        ProducerClient(0, config) as producer,
        steps("tests", len(tests)) as advance,
    ):
        levels, end = levels or runner.backend.default_levels(), time.monotonic() + seconds
        for test in tests:
            if time.monotonic() < end:
                found, examined = verify_one(test, runner, producer, levels, keep is not None)
            else:
                examined = []
                late = test.name, runner.name
                found = [LevelResult(*late, lv, Status.SKIPPED, NOT_BEGUN) for lv in levels]
            results += (known := list(map(judged, found)))
            show(bad := [r for r in known if r.status in BAD])
            if keep and any(r.status is Status.FAILED for r in known):
                keep(test, examined, runner, producer, levels)
            failed += len(bad)
            advance(f"{failed} failed" if failed else "")
    return results


def verify_one(
    test: TestFolder,
    runner: BackendRunner,
    bench: ProducerClient,
    levels: Sequence[str],
    confirms: bool = False,
) -> tuple[list[LevelResult], list[Result]]:
    """The results of one test, one per level; and those of the experiments on each data set where
    the graph is known, so that `bench` judges by the envelope. confirms: see `examine`. Raises:
    OptionError for an unknown level.
    """

    def everywhere(
        status: Status, error: Exception | str
    ) -> tuple[list[LevelResult], list[Result]]:
        message, _, details = str(error).partition("\n")
        names = test.name, runner.name
        return [LevelResult(*names, lv, status, message, details) for lv in levels], []

    try:
        cases = list(test.cases())
        if lacking := _foreign(cases).difference(runner.backend.domains):
            wants = f"it needs operators of the domain {', '.join(sorted(lacking))}"
            return everywhere(Status.SKIPPED, f"{wants}, which {runner.name} does not take")
        examined = [
            examine(case, runner, bench, levels, thorough=True, confirms=confirms) for case in cases
        ]
        by_envelope = [_by_envelope(test, result) for result in examined]
        parts = by_envelope or list(_by_tolerance(test, runner, levels))
        return [_worst(results) for results in zip(*parts)], examined
    except NotTensors as error:
        return everywhere(Status.SKIPPED, error)
    except (Unreadable, ProducerError, RunnerError) as error:
        return everywhere(Status.ERROR, error)


def _foreign(cases: Sequence[TestCase]) -> set[str]:
    """The domains beside ONNX's own of the operators of test cases."""
    names = {name for case in cases for name in case.graph.operators}
    return {name.rpartition(".")[0] for name in names} - {""}


def _by_envelope(test: TestFolder, result: Result) -> list[LevelResult]:
    mismatches = result.verdict.mismatches if result.verdict else {}
    judged = [
        _result(test, o, list(map(str, mismatches.get(o.target, ())))) for o in result.outcomes
    ]
    coverage = result.verdict.coverage if result.verdict else ""
    partly = f"agrees on {coverage}" if coverage else ""
    return [r if r.message else replace(r, message=partly) for r in judged]


def _by_tolerance(
    test: TestFolder, runner: BackendRunner, levels: Sequence[str]
) -> Iterator[list[LevelResult]]:
    """The results of all data sets, which are calls of one program, or of each of them by itself
    where the names of the model's inputs look like those of calls.
    """
    model, tolerances, sets = test.model(), test.tolerances(), test.data_sets()
    odd = any(name_and_copy(name)[1] for name in sets[0].inputs) or not sets[0].inputs
    for calls in [[own] for own in sets] if odd else [sets]:
        outcomes = runner.run(model, from_copies(own.inputs for own in calls), levels)
        yield [_result(test, o, output_differences(calls, o, tolerances)) for o in outcomes]


def _worst(results: Sequence[LevelResult]) -> LevelResult:
    """The result that counts among those of the data sets at one level: the first failure, else the
    first that did not pass. Its time is the sum of all.
    """
    failed = (r for r in results if r.status in BAD)
    others = (r for r in results if r.status is not Status.PASSED)
    first = next(chain(failed, others), results[0])
    return replace(first, seconds=sum(r.seconds for r in results))


def output_differences(
    calls: Sequence[DataSet], outcome: Outcome, tolerances: Tolerances = NO_TOLERANCES
) -> list[str]:
    """One line for each wrong output of each call; none if the outcome has no outputs."""
    if outcome.outputs is None:
        return []
    lines = []
    for number, data_set in enumerate(calls):
        for name, expected in data_set.outputs.items():
            actual = outcome.outputs.get(at_size(name, number))
            if wrong := output_difference(expected, actual, tolerances.of(name)):
                lines.append(f"{data_set.name}, {name}: {wrong}")
    return lines


def output_difference(
    expected: np.ndarray, actual: np.ndarray | None, tolerance: Tolerance | None = None
) -> str:
    """How an output differs from the expected one; "" if it does not. tolerance: by default that of
    the dtype.
    """
    if actual is None:
        return "missing"
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        return (
            f"{actual.dtype}{list(actual.shape)}, expected {expected.dtype}{list(expected.shape)}"
        )
    wrong = ~_close(expected, actual, tolerance)
    if not wrong.any():
        return ""
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} elements, first {list(index)}: "
        f"{actual[index]}, expected {expected[index]}"
    )


def _close(expected: np.ndarray, actual: np.ndarray, given: Tolerance | None) -> np.ndarray:
    kind = expected.dtype.kind
    if kind != "c" and not is_floating(expected):
        return expected == actual
    usual = TOLERANCES.get(expected.dtype.name, OTHER_FLOATS)
    rtol, atol = (given.rtol, given.atol) if given else usual
    if kind != "c":  # ml_dtypes compute nothing by themselves
        expected, actual = expected.astype(np.float64), actual.astype(np.float64)
    return np.isclose(actual, expected, rtol, atol, equal_nan=True)


def _result(test: TestFolder, outcome: Outcome, wrong: Sequence[str]) -> LevelResult:
    seconds = sum(outcome.seconds.values())
    status, message, details, kind = Status.PASSED, "", "", ""
    if outcome.kind in FAILURES:
        text = ": ".join(t for t in (outcome.signal or outcome.error_type, outcome.message) if t)
        status, message = Status.FAILED, f"{outcome.kind} in {outcome.stage}: {text}"
        details = "\n".join(t for t in (outcome.traceback, outcome.captured) if t)
        kind = outcome.kind
    elif outcome.kind is OutcomeKind.UNSUPPORTED:
        status, message = Status.SKIPPED, f"unsupported: {outcome.message}"
    elif outcome.kind is OutcomeKind.NOT_COMPARED:
        status, message = Status.NOT_COMPARED, outcome.message
    elif outcome.ok and outcome.outputs is None:
        status, message = Status.SKIPPED, "compiled, and not run: no device"
    elif wrong:
        status, message, details = Status.FAILED, wrong[0], "\n".join(wrong)
        kind = OutcomeKind.MISMATCH
    names = test.name, outcome.backend, outcome.level
    return LevelResult(*names, status, message, details, seconds, str(kind))
