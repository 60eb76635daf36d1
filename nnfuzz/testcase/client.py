"""A producer in a sandbox, one job at a time: makes test cases and judges outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TypeVar

from nnfuzz.backend.deviation import NO_HABITS, Habits
from nnfuzz.backend.outcome import Outcome
from nnfuzz.base.reading import Json, Unreadable
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.sandbox.events import Death, Limits, Reply, Trouble, WorkerFault, event_line
from nnfuzz.sandbox.forkserver import ForkClient, ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.sandbox import Sandbox
from nnfuzz.testcase.case import NotProduced, TestCase
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

A = TypeVar("A")
PRODUCER = "nnfuzz.testcase.producer:producer_service"
PRELOAD = (
    "numpy",
    "onnx",
    "onnx.numpy_helper",
    "torch",
    "nnfuzz.testcase.producer",
    "nnfuzz.compare.verdict",
)
LIMITS = Limits(seconds=120.0)
REFERENCE_WORKER = "nnfuzz.testcase.jobs:reference_service"
REFERENCE_PRELOAD = ("numpy", "onnx.reference", "nnfuzz.testcase.jobs")
REFERENCE_LIMITS = Limits(seconds=30.0)
_REFUSALS = (
    "KeyError",
    "ValueError",
    "RegistryError",
    "NothingLeft",
    "OpsetError",
    "Unreadable",
)


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


def blames_settings(error_type: str) -> bool:
    """Whether a producer that raises this while it starts refuses its configuration."""
    return error_type.rpartition(".")[2] in _REFUSALS


def reference_sandbox(server: ForkClient | None) -> Sandbox:
    """A worker that only computes references, without PyTorch. server: None for a new one."""
    start = partial(ForkServer, REFERENCE_PRELOAD)
    return Sandbox(REFERENCE_WORKER, {}, REFERENCE_LIMITS, server, start)
