"""The service inside of a producer's worker: makes test cases, judges outputs."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.base.packed_values import evaluated
from nnfuzz.base.reading import Json
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.sandbox.job import Report, Service, does
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.jobs import (
    REFERENCE,
    CheckCase,
    ComputeReference,
    Configure,
    Expose,
    Judge,
    Lift,
    ListVocabulary,
    Lower,
    Produce,
    Vocabulary,
)

if TYPE_CHECKING:  # it loads PyTorch
    from nnfuzz.testcase.bench import CaseBench

COLLECTED = (10_000, 10, 50)
"""Thresholds of the garbage collector: by default it takes a twentieth of the time of a producer,
whose test cases hold no cycles to speak of."""
_REFUSALS = (
    "KeyError",
    "ValueError",
    "RegistryError",
    "NothingLeft",
    "OpsetError",
    "SeedError",
    "Unreadable",
)


def blames_settings(error_type: str) -> bool:
    """Whether a producer that raises this while it starts refuses its configuration."""
    return error_type.rpartition(".")[2] in _REFUSALS


class ReferenceService(Service):
    """ONNX's reference evaluator, which needs no PyTorch."""

    @does(ComputeReference)
    def reference(self, job: ComputeReference, report: Report) -> Outcome:
        return _reference(job.case)


class BenchService(ReferenceService):
    """Works on test cases that are there."""

    def __init__(self, bench: CaseBench) -> None:
        self.bench = bench

    @does(CheckCase)
    def check(self, job: CheckCase, report: Report) -> None:
        self.bench.check(job.case)

    @does(Lower)
    def lower(self, job: Lower, report: Report) -> TestCase:
        return self.bench.lower(job.case)

    @does(Expose)
    def expose(self, job: Expose, report: Report) -> TestCase:
        return self.bench.expose(job.case)

    @does(Lift)
    def lift(self, job: Lift, report: Report) -> TestCase:
        return self.bench.lift(job.case)

    @does(Judge)
    def judge(self, job: Judge, report: Report) -> Verdict:
        outputs = {result.target: result.outputs for result in job.results}
        habits = {result.target: result.habits for result in job.results if result.habits}
        return self.bench.judge(job.case, outputs, job.names, habits)


class ProducerService(BenchService):
    """One per worker; loads operator specs once."""

    def __init__(self, seed: int, config: Mapping[str, Json], cache: str = "") -> None:
        """cache: the folder of files for other processes; "" for none."""
        from nnfuzz.testcase.producer import Producer

        gc.set_threshold(*COLLECTED)
        self.producer = Producer(seed, CaseConfig.from_json(config), cache)
        super().__init__(self.producer)

    @does(Produce)
    def produce(self, job: Produce, report: Report) -> TestCase | NotProduced:
        return self.producer.made(job.test, report, job.died)

    @does(ListVocabulary)
    def vocabulary(self, job: ListVocabulary, report: Report) -> Vocabulary:
        producer = self.producer
        return Vocabulary(producer.signatures(), producer.variables(), list(producer.notes))

    @does(Configure)
    def configure(self, job: Configure, report: Report) -> None:
        self.producer.configure(job.config)


def _reference(case: TestCase) -> Outcome:
    import onnx

    target = Target(REFERENCE, onnx.__version__, form=case.exporter)
    try:
        outputs = evaluated(case.model, case.inputs)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return Outcome(OutcomeKind.UNSUPPORTED, Stage.EXECUTE, target, message=message)
    outputs = {name: np.asarray(result) for name, result in outputs.items()}
    return Outcome(OutcomeKind.OK, Stage.EXECUTE, target, outputs=outputs)


def producer_service(seed: int, config: Mapping[str, Json], cache: str = "") -> ProducerService:
    """The factory that sandboxes name: "nnfuzz.testcase.service:producer_service"."""
    return ProducerService(seed, config, cache)


def reference_service() -> ReferenceService:
    """The factory of a service that only computes references."""
    return ReferenceService()
