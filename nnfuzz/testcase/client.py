"""A producer in a sandbox, one job at a time: makes test cases and judges outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from types import TracebackType
from typing import TypeVar

from nnfuzz.backend.deviation import NO_HABITS, Habits
from nnfuzz.backend.outcome import Outcome
from nnfuzz.base.reading import Json, Unreadable
from nnfuzz.base.threads import one_thread
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.sandbox.events import Death, Limits, Reply, Trouble, WorkerFault, event_line
from nnfuzz.sandbox.forkserver import ForkClient, ForkServer
from nnfuzz.sandbox.job import Job, Report, Service
from nnfuzz.sandbox.sandbox import Sandbox
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.identity import TestId
from nnfuzz.testcase.jobs import (
    CheckCase,
    ComputeReference,
    Expose,
    Judge,
    Lift,
    Lower,
    Produce,
)
from nnfuzz.testcase.service import BenchService, blames_settings

A = TypeVar("A")
PRODUCER = "nnfuzz.testcase.service:producer_service"
PRELOAD = (
    "numpy",
    "onnx",
    "onnx.numpy_helper",
    "torch",
    "nnfuzz.testcase.producer",
    "nnfuzz.compare.verdict",
)
LIMITS = Limits(seconds=120.0)
EVALUATOR = "nnfuzz.testcase.service:reference_service"
EVALUATOR_PRELOAD = ("numpy", "onnx.reference", "nnfuzz.testcase.service")
EVALUATOR_LIMITS = Limits(seconds=30.0)


class ProducerError(RuntimeError):
    """The producer failed, which is nnfuzz's fault and nobody else's."""


class ProducerUnavailable(ProducerError):
    """The producer cannot even start."""


class ProducerSettingsError(Unreadable):
    """A seed or configuration that the producer refuses, such as an unknown operator."""


class ProducerClient:
    """A producer in a sandbox: makes test cases and judges outputs, one job at a time."""

    def __init__(
        self,
        seed: int,
        config: Mapping[str, Json],
        server: ForkServer | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        """config: the written CaseConfig. The process starts with the first job."""
        arguments = {"seed": seed, "config": dict(config)}
        start = partial(ForkServer, PRELOAD)
        self._sandbox = Sandbox(PRODUCER, arguments, limits, server, start)

    @classmethod
    def asking(cls, sandbox: Sandbox) -> ProducerClient:
        """One whose worker is at hand, and serves test cases that are there already."""
        client = cls.__new__(cls)
        client._sandbox = sandbox
        return client

    def produce(self, id_: TestId) -> TestCase | NotProduced:
        """The test case that is meant. A producer or exporter that dies is a NotProduced.

        Raises: ProducerUnavailable, ProducerSettingsError.
        """
        job = Produce(id_)
        try:
            event = working(self._sandbox.call(job))
            without_exporter = job.after(event)
            return self._call(without_exporter) if without_exporter else _value(event)
        except ProducerUnavailable:
            raise
        except ProducerError as error:
            return NotProduced(id_, "fault", str(error))

    def judge(
        self,
        case: TestCase,
        outcomes: Iterable[Outcome],
        names: Sequence[str] = (),
        habits: Mapping[str, Habits] = NO_HABITS,
    ) -> Verdict:
        """The verdict on the outcomes that returned. names: the outputs to look at; default: all.

        Raises: ProducerError, ProducerSettingsError.
        """
        return self._call(Judge.of(case, outcomes, names, habits))

    def check(self, case: TestCase) -> None:
        """Raises: Unreadable if a test case of somebody else has no valid graph, or inputs that
        PyTorch cannot compute it from within the limits of a worker.
        """
        try:
            self._call(CheckCase(case))
        except ProducerUnavailable:
            raise
        except ProducerError as error:
            message = str(error).partition("\n")[0].removeprefix(f"{Unreadable.__module__}.")
            raise Unreadable(f"the test case is damaged: {message}") from error

    def lower(self, case: TestCase) -> TestCase:
        """The case in the direct form. Raises: ProducerError."""
        return self._call(Lower(case))

    def reference(self, case: TestCase) -> Outcome:
        """The outcome of ONNX's reference evaluator for the model. Raises: ProducerError."""
        return self._call(ComputeReference(case))

    def expose(self, case: TestCase) -> TestCase:
        """The case with every computed value as an output. Raises: ProducerError."""
        return self._call(Expose(case))

    def lift(self, case: TestCase) -> TestCase:
        """The case in the next wider floating dtypes. Raises: ProducerError."""
        return self._call(Lift(case))

    def close(self) -> None:
        self._sandbox.close()

    def __enter__(self) -> ProducerClient:
        return self

    def __exit__(self, kind: type | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def _call(self, job: Job[A]) -> A:
        return _value(working(self._sandbox.call(job)))


class LocalProducer(ProducerClient):
    """Works on test cases that are there in this process, which has PyTorch and may die of it.

    ONNX's reference evaluator, which may never end, has a process of its own, once it is needed.
    """

    def __init__(self, service: Service, server: ForkClient | None = None) -> None:
        """service: does the jobs. server: of the evaluator's process; None: a new one."""
        self._service, self._server = service, server
        self._threads: Callable[[], AbstractContextManager[None]] = nullcontext

    @classmethod
    def of(cls, config: Mapping[str, Json]) -> LocalProducer:
        """One with the operators of a written CaseConfig, in a process with other work."""
        from nnfuzz.testcase.bench import CaseBench

        made = cls(BenchService(CaseBench(CaseConfig.from_json(config))))
        made._threads = one_thread
        return made

    @cached_property
    def _sandbox(self) -> Sandbox:  # type: ignore[override]
        start = partial(ForkServer, EVALUATOR_PRELOAD)
        return Sandbox(EVALUATOR, {}, EVALUATOR_LIMITS, self._server, start)

    def close(self) -> None:
        if "_sandbox" in vars(self):
            self._sandbox.close()

    def _call(self, job: Job[A]) -> A:
        is_evaluation = isinstance(job, ComputeReference)
        if is_evaluation:
            return super()._call(job)
        try:
            with self._threads():
                return self._service.done(job, Report())
        except Exception as error:
            raise ProducerError(f"{type(error).__name__}: {error}") from error


def _value(event: Reply[A] | Trouble) -> A:
    """The answer. Raises: ProducerError if there is none."""
    if isinstance(event, WorkerFault):
        raise ProducerError(f"{event_line(event)}\n{event.traceback}")
    if isinstance(event, Death):
        raise ProducerError(f"{event_line(event)}\n{event.captured}")
    return event.value


def working(event: Reply[A] | Trouble) -> Reply[A] | Trouble:
    """The event. Raises: ProducerSettingsError, ProducerUnavailable if no worker can start."""
    if isinstance(event, WorkerFault) and event.starting:
        if blames_settings(event.error_type):
            raise ProducerSettingsError(event.message.strip("\"'"))
        raise ProducerUnavailable(f"{event_line(event)}\n{event.traceback}")
    if isinstance(event, Death) and event.stage == "start":
        raise ProducerUnavailable(f"{event_line(event)}\n{event.captured}")
    return event
