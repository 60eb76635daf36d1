"""Two operators that fail together: the one that still does with a plain one in the other's place;
and hangs, which are reduced in a hurry and confirmed in full.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.reduction.candidate import CandidateQuestion
from nnfuzz.reduction.case import CONFIRMATIONS, _confirming, _shortened
from nnfuzz.reduction.diagnosis import diagnose
from nnfuzz.triage.cause import Cause
from nnfuzz.triage.signature import failures
from tests.reduction.test_known import Tried, fails
from tests.triage.test_cause import graph
from tests.triage.test_signature import failed, outcome

PLAIN = {"makers": ("Where", 0), "readers": ("Equal", 1)}


class Pairs:
    """Two operators fail together if one of the wrong ones is there."""

    def __init__(self, *wrong):
        self.wrong, self.tried = wrong, []
        self.runner = "toy"

    def explain(self, case, outputs, told):
        raise AssertionError("no outputs, no hypotheses")

    def run(self, case, edits, question):
        made = case.graph
        for edit in edits:
            if edit.by == "redrawing":
                return Tried()
            if edit.by == "neighbourhoods":
                made = replace(made, nodes=made.nodes[1:])
            if edit.by in PLAIN:
                operator, place = PLAIN[edit.by]
                nodes = list(made.nodes)
                nodes[place] = replace(nodes[place], op=operator)
                made = replace(made, nodes=tuple(nodes))
        self.tried.append(made.operators)
        bad = [op for op in made.operators if op in self.wrong and len(made.nodes) == 2]
        return replace(fails(made, bad), digest="-".join(made.operators))


@pytest.mark.parametrize(
    "wrong, told",
    [
        (("Not",), "Not (float32) is wrong for whatever reads it"),
        (("Sign",), "Sign (float32) cannot take what is computed"),
        (("Not", "Sign"), ""),  # each is enough: there are two
    ],
)
def test_the_one_at_fault_fails_with_a_plain_operator(wrong, told):
    slots = Pairs(*wrong)
    best = slots.run(fails(graph(("Not", "x", "h"), ("Sign", "h", "y")), ()).case, (), None)
    found = diagnose(slots, CandidateQuestion(("O0", "O1"), True), [best], best.failing[0][0], ())
    assert tuple(map(str, found.explanations)) == ((told,) if told else ())
    assert [told in key.text for key in found.keys] == ([True] if told else [])


def test_a_fusion_needs_both():
    slots = Pairs("nothing but the two")
    made = graph(("Not", "x", "h"), ("Sign", "h", "y"))
    best = fails(made, ("Sign",))
    found = diagnose(slots, CandidateQuestion(("O0", "O1"), True), [best], best.failing[0][0], ())
    assert found.explanations == () and ("Where", "Sign") in slots.tried


def hangs(*levels):
    ran = [replace(failed(level), kind=OutcomeKind.TIMEOUT) for level in levels]
    (failure,) = failures(ran)
    return Tried("digest", outcomes=tuple(ran), failing=((failure, "hangs"),))


def test_what_hangs_everywhere_runs_at_one_level_and_in_a_hurry():
    whole, tried = CandidateQuestion(("O0", "O1"), False), hangs("O0", "O1")
    question = _shortened(whole, tried.failing[0][0], tried)
    assert question.levels == ("O0",) and question.hurried
    first, *others = _confirming(whole, question)
    assert not first.hurried and len(others) == CONFIRMATIONS - 1
    assert all(other == question for other in others)


def test_what_hangs_when_optimised_needs_the_level_that_does_not():
    whole, tried = CandidateQuestion(("O0", "O1"), False), hangs("O1")
    tried = replace(tried, outcomes=(outcome("O0"), *tried.outcomes))
    assert _shortened(whole, tried.failing[0][0], tried).levels == ("O0", "O1")
    assert _confirming(whole, whole) == [whole] * CONFIRMATIONS


def test_what_says_something_else_is_another_cause():
    made = graph(("Elu", "x", "y"))
    (failure,) = failures([failed("O0", "no Elu of float32")])
    assert failure.stage is Stage.IMPORT or failure.stage is Stage.COMPILE
    other = graph(("Selu", "x", "y"))
    assert Cause("r", other, messages=("no Selu of float32",)).says(failure, made)
    assert not Cause("r", other, messages=("axis of Selu",)).says(failure, made)
    assert Cause("r", other).says(failure, made)
