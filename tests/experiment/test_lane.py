"""The steps of a test, with compilers and a judge that answer at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.compare.mismatch import Contradiction, Mismatch, MismatchKind, Verdict
from nnfuzz.experiment.lane import Lane
from nnfuzz.experiment.result import DEATH, FAULT, UNDEFINED, Judging, Plan, Run
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.sandbox.record import pack, unpack
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.client import ProducerError
from nnfuzz.testcase.identity import Probe
from nnfuzz.testcase.producer import Producer
from nnfuzz.vary.faults.fault import Fault


@pytest.fixture(scope="module")
def case():
    producer = Producer(0, CaseConfig(exporter="direct", operators=("Div",)))
    found = producer.made(Probe(SupportKey.parse("direct:Div(int64)->int64"), 0))
    assert isinstance(found, TestCase)
    return found


class Answers:
    """A compiler that always ends in the same way, and its judge. defined: what that says."""

    def __init__(self, ended: Outcome, defined: bool) -> None:
        self.ended, self.verdict = ended, Verdict({}, defined=defined)

    def run(self, runs):
        return [[self.ended] for _ in runs]

    def judge(self, case, outcomes, names, habits):
        return self.verdict


def examined(case, plan, services):
    return Lane(services, services).test(case, plan)


RAISED = Outcome(
    OutcomeKind.EXCEPTION, Stage.EXECUTE, Target("c", pipeline="O0"), "Error", "division by zero"
)


@pytest.mark.parametrize(
    ("ended", "defined", "found"),
    [
        (RAISED, True, 1),
        (RAISED, False, 0),
        (replace(RAISED, stage=Stage.COMPILE), False, 1),
    ],
)
def test_an_error_counts_where_the_model_is_sure_to_be_defined(case, ended, defined, found):
    plan = Plan([Run("c", case, ("O0",))], Judging.NEVER)
    result = examined(case, plan, Answers(ended, defined))
    assert len(result.failures) == found
    assert [e.kind for e in result.events] == [UNDEFINED] * (1 - found)


def test_no_input_excuses_a_process_that_dies(case):
    died = replace(RAISED, kind=OutcomeKind.CRASH, signal="SIGFPE")
    plan = Plan([Run("c", case, ("O0",))], Judging.NEVER)
    result = examined(case, plan, Answers(died, defined=False))
    assert len(result.failures) == 1
    assert [e.kind for e in result.events] == [DEATH]


class Answered(Answers):
    """A compiler that notes the models that run."""

    def __init__(self, ended: Outcome) -> None:
        super().__init__(ended, defined=True)
        self.ran: list[bytes] = []

    def run(self, runs):
        self.ran += [run.case.model for run in runs]
        return super().run(runs)


def test_a_model_that_must_be_refused_runs_beside_the_one_without_its_fault(case):
    fault = Fault("wrong-axis", "axis is 7", "the accepted range", "Div")
    broken = replace(case, model=b"broken", plain=case.model, plain_inputs=case.inputs, fault=fault)
    services = Answered(replace(RAISED, stage=Stage.COMPILE))
    plan = Plan([Run("c", broken, ("O0",))], Judging.NEVER)
    result = examined(broken, plan, services)
    assert services.ran == [b"broken", case.model]
    assert not result.failures, "both end in the same way, whatever the fault"
    again = unpack(TestCase, *pack(TestCase, broken))
    assert again.valid is not None and again.valid.model == case.model


def test_outputs_that_agreed_in_the_worker_are_not_judged(case):
    ran = Outcome(OutcomeKind.OK, Stage.EXECUTE, Target("c", pipeline="O0"))
    plan = Plan([Run("c", case, ("O0",), compares=True)], Judging.DOUBTFUL)
    result = examined(case, plan, Answers(ran, True))
    assert result.agreed and result.verdict is None and not result.failures
    assert [o.agrees for o in result.outcomes] == [True]


class Contradicted(Answers):
    """A compiler that is wrong unless onnx.reference, which answers `theirs`, is among
    the targets. `asked`: how often that was asked for."""

    def __init__(self, ran: Outcome, theirs: object) -> None:
        super().__init__(ran, defined=True)
        self.theirs, self.asked = theirs, 0

    def judge(self, case, outcomes, names, habits):
        (name,) = case.expected
        wrong = {self.ended.target: (Mismatch(name, MismatchKind.VALUE, wrong=1),)}
        contradictions = {self.ended.target: (Contradiction(name, "0", "1", (2,), 1),)}
        alone = len(outcomes) == 1
        verdict = Verdict(wrong) if alone else Verdict({}, contradictions=contradictions)
        return verdict

    def reference(self, case):
        self.asked += 1
        if self.theirs is None:
            raise ProducerError("it has no end")
        return self.theirs


def test_a_result_with_which_onnx_reference_agrees_is_not_wrong(case):
    """It is neither right, and that is a fault of nnfuzz."""
    (name,) = case.expected
    target, arbiter = Target("c", pipeline="O0"), Target("onnx.reference", form="direct")
    ran, computed = (
        Outcome(OutcomeKind.OK, Stage.EXECUTE, t, outputs={name: case.expected[name] + 1})
        for t in (target, arbiter)
    )
    plan = Plan([Run("c", case, ("O0",))], repeats=lambda failure: 1)
    services = Contradicted(ran, computed)
    result = examined(case, plan, services)
    (outcome,) = result.outcomes
    text = f"nnfuzz and onnx.reference differ: {name}[2] is 0 by nnfuzz, and 1 by onnx.reference"
    assert (outcome.kind, outcome.message) == (OutcomeKind.NOT_COMPARED, f"{text} (1 elements)")
    assert not result.failures and [(e.kind, e.message) for e in result.events] == [
        (FAULT, outcome.message)
    ]
    agreeing = replace(computed, outputs=dict(case.expected))
    for silent in (None, replace(computed, kind=OutcomeKind.UNSUPPORTED, outputs=None), agreeing):
        services = Contradicted(ran, silent)
        result = examined(case, plan, services)
        assert len(result.failures) == 1 and services.asked == 1
