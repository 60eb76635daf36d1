"""The lane: one test from its model to its finding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnfuzz.backend.numeric import Deviation
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.compare.flip import Coordinate
from nnfuzz.compare.mismatch import Contradiction, Mismatch, MismatchKind, Verdict
from nnfuzz.experiment.judge import (
    BLIND,
    accused_by,
    comparable_share,
    doubtful,
    excused,
    informed,
    lost,
)
from nnfuzz.experiment.lane import Lane
from nnfuzz.experiment.result import DEATH, FAULT, UNDEFINED, Judging, Plan, Run
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.ir.view import NO_GRAPH
from nnfuzz.sandbox.record import pack, unpack
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.client import ProducerError
from nnfuzz.testcase.identity import Numbered, Probe
from nnfuzz.testcase.jobs import Judge
from nnfuzz.testcase.producer import Producer
from nnfuzz.triage.signature import failures
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


# What the parent decides by itself, and what it asks the judge.


EXPECTED = {"a": np.float32([1, 2]), "b": np.int64([3])}
CASE = TestCase(Numbered(0, 0), NO_GRAPH, b"", {}, {}, EXPECTED)


def outcome(level: str, **outputs: np.ndarray) -> Outcome:
    return Outcome(OutcomeKind.OK, Stage.EXECUTE, Target("toy", pipeline=level), outputs=outputs)


def test_only_outputs_that_differ_anywhere_are_doubtful():
    good = outcome("O0", **EXPECTED)
    near = outcome("O1", a=EXPECTED["a"] * np.float32(1 + 1e-7), b=EXPECTED["b"])
    wrong = outcome("O2", a=EXPECTED["a"], b=np.int64([4]))
    short = outcome("O3", b=EXPECTED["b"])
    assert doubtful(CASE, [good, near]) == []
    assert doubtful(CASE, [good, wrong]) == ["b"]
    assert doubtful(CASE, [wrong, short]) == ["a", "b"]


def test_the_judge_gets_the_doubtful_outputs_of_every_target():
    ran = [outcome("O0", **EXPECTED), outcome("O2", a=EXPECTED["a"], b=np.int64([4]))]
    job = Judge.of(CASE, ran, ["b"])
    assert job.names == ("b",)
    assert [[*result.outputs] for result in job.results] == [["b"], ["b"]]
    assert sum(len(result.outputs) for result in Judge.of(CASE, ran).results) == 4


def test_the_comparable_share_is_told_for_whole_verdicts_only():
    assert comparable_share(Verdict({}, {"a": 1.0, "b": 0.5}), EXPECTED) == 0.75
    assert comparable_share(Verdict({}, {"b": 0.5}), EXPECTED) is None
    assert comparable_share(None, EXPECTED) is None


def test_what_a_habit_alone_gets_wrong_is_a_witness_for_the_rest():
    """Both levels compute "a" in a narrower type; "b" is wrong at O3."""
    low, high = (outcome(level, **EXPECTED) for level in ("O0", "O3"))
    a, b = (Mismatch(name, MismatchKind.VALUE) for name in EXPECTED)
    verdict = Verdict({low.target: (a,), high.target: (a, b)})
    told = replace(
        verdict,
        explained={low.target: (Deviation("float64", "float32"),)},
        habitual={high.target: ("a",)},
    )
    found = failures([low, high], told)
    accused = [accused_by([low, high], told, failure).coordinate for failure in found]
    assert accused == [Coordinate.COMPILER, Coordinate.PIPELINE]


def test_what_is_wrong_at_the_baseline_already_accuses_nobody():
    plain, other = replace(outcome("none"), baseline=True), outcome("all")
    stranger = replace(outcome("O0"), target=Target("stranger", pipeline="O0"))
    assert [o.kind for o in excused([plain, other])] == [OutcomeKind.OK] * 2
    wrong = [replace(o, kind=OutcomeKind.MISMATCH) for o in (plain, other, stranger)]
    kinds = [o.kind for o in excused(wrong)]
    assert kinds == [OutcomeKind.UNSUPPORTED, OutcomeKind.UNSUPPORTED, OutcomeKind.MISMATCH]
    kinds = [o.kind for o in excused([plain, *wrong[1:]])]
    assert kinds == [OutcomeKind.OK, OutcomeKind.MISMATCH, OutcomeKind.MISMATCH]


def test_a_level_that_refuses_what_a_lower_one_computes_fails():
    low, high, other = (outcome(level, **EXPECTED) for level in ("O0", "O3", "dynamic"))
    refused = [replace(o, kind=OutcomeKind.UNSUPPORTED, outputs=None) for o in (low, high, other)]
    kinds = [o.kind for o in lost([low, *refused[1:]])]
    assert kinds == [OutcomeKind.OK, OutcomeKind.EXCEPTION, OutcomeKind.UNSUPPORTED]
    assert lost([refused[0], high]) == [refused[0], high]
    assert lost(refused) == refused


def test_a_baseline_keeps_the_words_by_which_it_says_what_it_lacks():
    lacks = replace(outcome("none"), baseline=True, kind=OutcomeKind.UNSUPPORTED, message="no Relu")
    other = replace(outcome("all"), kind=OutcomeKind.EXCEPTION, message="no Relu")
    assert [o.message for o in excused([lacks, other])] == ["no Relu", "the baseline is not right"]


def test_an_answer_says_nothing_where_the_model_without_its_fault_gets_no_further():
    def at(level: str, kind: OutcomeKind, stage: Stage) -> Outcome:
        return Outcome(kind, stage, Target("toy", pipeline=level), message="told")

    died, refused = OutcomeKind.CRASH, OutcomeKind.REFUSED
    valid = [at("O0", died, Stage.COMPILE), at("O3", OutcomeKind.OK, Stage.EXECUTE)]
    found = [
        *informed([at("O0", died, Stage.COMPILE), at("O3", died, Stage.COMPILE)], valid),
        *informed([at("O0", refused, Stage.IMPORT), at("O3", refused, Stage.IMPORT)], valid),
        *informed([at("O0", OutcomeKind.ACCEPTED, Stage.EXECUTE)], valid),
    ]
    assert [o.kind for o in found] == [
        *(OutcomeKind.UNSUPPORTED, died),
        *(refused, refused),
        OutcomeKind.ACCEPTED,
    ]
    assert [o.message for o in found] == [BLIND, *["told"] * 4]
