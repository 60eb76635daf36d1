"""The operator at which a process dies without a word is found by running shorter models."""

from __future__ import annotations

from dataclasses import replace

import onnx
import pytest

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.experiment.lane import Lane
from nnfuzz.experiment.result import Judging, Plan, Run
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.extraction import beginning
from nnfuzz.testcase.identity import Numbered
from nnfuzz.testcase.producer import Producer

DIED = Outcome(
    OutcomeKind.CRASH, Stage.COMPILE, Target("c", pipeline="O0", form="direct"), signal="SIGSEGV"
)


@pytest.fixture(scope="module")
def case():
    made = Producer(0, CaseConfig(exporter="direct", nodes=8)).made(Numbered(0, 3))
    assert isinstance(made, TestCase) and len(made.graph.operators) > 4
    return made


def test_a_beginning_is_a_valid_model(case):
    for count in range(1, len(case.graph.nodes) + 1):
        cut = beginning(case, count)
        onnx.checker.check_model(onnx.load_model_from_string(cut.model), full_check=True)


class Mute:
    """A compiler whose process dies of models with some operator. flaky: whether it
    survives in a fresh process.
    """

    def __init__(self, operator: str, flaky: bool = False) -> None:
        self.operator, self.flaky, self.runs = operator, flaky, 0

    def run(self, runs):
        self.runs += len(runs)
        return [[DIED if self._dies(r) else replace(DIED, kind=OutcomeKind.OK)] for r in runs]

    def _dies(self, run):
        return self.operator in run.case.graph.operators and not (self.flaky and run.fresh)

    def lower(self, case):
        return case


def failures_of(case, services, **plan):
    planned = Plan([Run("c", case, ("O0",))], Judging.NEVER, **plan)
    return Lane(services, services).test(case, planned).failures


def test_a_silent_death_is_known_by_its_operator(case):
    found = {}
    for operator in case.graph.operators:
        services = Mute(operator)
        (failure,) = failures_of(case, services)
        assert failure.signature.parts["operators"] == [operator]
        assert services.runs <= 6
        found[failure.signature.hash] = operator
    assert len(found) == len(case.graph.operators)


def test_a_death_by_chance_has_no_place(case):
    operator = case.graph.operators[2]
    (failure,) = failures_of(case, Mute(operator, flaky=True))
    assert "operators" not in failure.signature.parts


def test_reduction_need_not_locate(case):
    services = Mute(case.graph.operators[2])
    (failure,) = failures_of(case, services, locates=False)
    assert "operators" not in failure.signature.parts and services.runs == 1
