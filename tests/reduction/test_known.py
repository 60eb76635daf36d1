"""Known causes under reduction: recognised at once, and cut out where something else fails too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import namesake
from nnfuzz.findings.folder import write_finding
from nnfuzz.findings.reduced import cause_of, reduce_folder
from nnfuzz.reduction.candidate import CandidateQuestion, Tried
from nnfuzz.reduction.case import ReduceConfig, Unexplained
from nnfuzz.reduction.diagnosis import diagnose
from nnfuzz.reduction.known import KnownCauses, occurrences
from nnfuzz.reduction.trials import Servers
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.cause import Cause
from nnfuzz.triage.signature import failures
from tests.triage.test_cause import graph, single
from tests.triage.test_signature import failed, outcome, verdict

WANTED = "the failure key"


def nodes(*steps):
    return graph(*steps).nodes


CHAIN = nodes(("Relu", "x", "a"), ("Conv", "aw", "b"), ("Relu", "b", "c"), ("Conv", "cb", "y"))


def test_occurrences_of_a_pattern():
    def places(*steps):
        return list(occurrences(nodes(*steps), CHAIN))

    assert places(("Conv", "x", "y")) == [["b"], ["y"]]
    assert places(("Relu", "x", "h"), ("Conv", "hw", "y")) == [["a", "b"], ["c", "y"]]
    assert places(("Conv", "x", "h"), ("Conv", "h", "y")) == [["b", "y"]]
    assert places(("Conv", "x", "h"), ("Relu", "h", "i"), ("Conv", "ih", "y")) == [["b", "c", "y"]]
    assert places(("Conv", "x", "h"), ("Relu", "x", "i"), ("Neg", "i", "y")) == []
    assert len(list(occurrences(nodes(("Abs", "x", "y")), nodes(*[("Abs", "x", "y")] * 9)))) <= 3


class Slots:
    """Every model with one of the wrong operators returns a wrong value."""

    def __init__(self, *wrong):
        self.wrong, self.tried = wrong, []

    def run(self, case, edits, question):
        made = case.graph
        for edit in (edit for edit in edits if edit.value):
            kept = [node for node in made.nodes if node.outputs[0] in edit.value]
            made = replace(made, nodes=tuple(kept))
        self.tried.append([node.op for node in made.nodes])
        return fails(made, self.wrong)


def fails(made, wrong):
    case = TestCase(Numbered(0, 0), made, b"", {}, {}, {}, "direct", 20)
    bad = [node for node in made.nodes if node.op in wrong]
    if not bad:
        return Tried("digest", case=case)
    told = verdict(O1=[(bad[0].outputs[0], "value")])
    (failure,) = failures([outcome("O0"), outcome("O1")], told, made)
    return Tried("digest", case=case, verdict=told, failing=((failure, WANTED),))


def cause(operator):
    made = single(operator)
    return Cause(Cause.of(fails(made, [operator]).failing[0][0], made).hash, made)


def known_of(slots, *causes, judged):
    return KnownCauses(
        causes, slots, CandidateQuestion(("O0", "O1"), judged), WANTED, Stage.EXECUTE
    )


@pytest.mark.parametrize(
    "wrong, left, known",
    [
        (("Erf",), ["Erf"], True),
        (("Erf", "Exp"), ["Exp"], True),
        (("Erf", "Tan"), ["Abs", "Exp", "Tan"], False),
        (("Tan",), ["Abs", "Erf", "Exp", "Tan"], False),
    ],
)
def test_what_is_known_is_cut_out_until_nothing_fails(wrong, left, known):
    whole = graph(("Abs", "x", "a"), ("Erf", "a", "b"), ("Exp", "b", "c"), ("Tan", "c", "y"))
    slots = Slots(*wrong)
    asked = known_of(slots, cause("Erf"), cause("Exp"), judged=True)
    rest = asked.without(fails(whole, wrong))
    assert [node.op for node in rest.case.graph.nodes] == left
    assert (asked.found is not None) == known
    assert len(slots.tried) <= 5


class Refusing(Slots):
    """Tan takes only what Abs makes, and what other operators make if they are right."""

    def habits(self):
        return ()

    def run(self, case, edits, question):
        made = super().run(case, edits, question).case.graph
        operators = [node.op for node in made.nodes]
        refused = "Tan" in operators and set(operators) & {*self.wrong, "Sign"}
        if question.judged and not refused:
            return fails(made, self.wrong)
        outcomes = [failed("O0", "refused") if refused else outcome("O0")]
        failing = tuple((failure, WANTED) for failure in failures(outcomes, None, made))
        return Tried("digest", "", (), replace(case, graph=made), tuple(outcomes), failing=failing)


@pytest.mark.parametrize("other, left, known", [("Exp", ["Erf"], True), ("Sign", ["Tan"], False)])
def test_an_error_behind_a_known_wrong_result_is_explained_if_it_goes_with_it(other, left, known):
    whole = graph(("Erf", "x", "a"), (other, "a", "b"), ("Tan", "b", "y"))
    slots = Refusing("Erf")
    case = TestCase(Numbered(0, 0), whole, b"", {}, {}, {}, "direct", 20)
    found = slots.run(case, (), CandidateQuestion(("O0",), False))
    asked = known_of(slots, replace(cause("Erf"), kind="mismatch"), judged=False)
    rest = asked.without(found)
    assert (asked.found is not None) == known and asked.recognises(rest) == known
    assert rest.case.graph.nodes[-1].op == left[0]


class Uncompiled(Slots):
    """The least optimised level compiles no Mod, and optimisation has another error behind a Mod
    that is followed by a Sign, or in any of the wrong operators.
    """

    def run(self, case, edits, question):
        made = super().run(case, edits, question).case.graph
        operators = [node.op for node in made.nodes]
        plain = "Mod" in operators
        other = "wide" if "Sign" in operators and plain else "bad" if plain else ""
        other = "wide" if set(operators) & set(self.wrong) else other
        outcomes = [failed("O0", "bad") if plain else outcome("O0")]
        outcomes.append(failed("O1", other) if other else outcome("O1"))
        found = failures(outcomes, None, made)
        marks = [f.signature.parts["message"] for f in found]
        case = replace(case, graph=made)
        failing = tuple(zip(found, marks))
        return Tried("digest", "", (), case, tuple(outcomes), failing=failing)


@pytest.mark.parametrize("wrong, follows", [((), True), (("Sign",), False)])
def test_an_optimised_error_may_be_the_plain_one_in_other_words(wrong, follows):
    def run(*steps):
        return slots.run(
            TestCase(Numbered(0, 0), graph(*steps), b"", {}, {}, {}, "direct", 20), (), None
        )

    slots = Uncompiled(*wrong)
    slots.runner, slots.habits = "toy", lambda: ()
    alone, both = run(("Mod", "x", "a")), run(("Mod", "x", "a"), ("Sign", "a", "y"))
    assert [mark for _, mark in both.failing] == ["bad", "wide"]
    failure = both.failing[1][0]
    found = diagnose(slots, CandidateQuestion(("O0", "O1"), False), [both], failure, ())
    plain = Cause.of(alone.failing[0][0], alone.case.graph).hash
    assert found.follows == (plain if follows else "")


@pytest.fixture(scope="module")
def servers(registry):
    with Servers(registry.spec("planted", {}), registry) as servers:
        yield servers


@pytest.mark.slow
def test_a_known_pass_is_recognised_by_pattern_and_by_what_cures_it(
    tmp_path, findings, registry, servers
):
    def reduce(i, *causes, **more):
        folder = write_finding(tmp_path / f"{i}{len(causes)}{len(more)}", findings[i])
        shared = {"registry": registry, "servers": servers, "causes": causes, **more}
        trusted = namesake(findings[i].backend.plugins)
        return reduce_folder(folder, ReduceConfig(**shared), trusted=trusted)

    full, reduced = reduce(0)
    fusion = cause_of(reduced, registry)
    assert fusion.passes == ("FuseMulAdd",) and full.cause is None
    done, quick = reduce(1, fusion)
    assert done.cause is fusion and quick.localisation is None
    assert sorted(node.op for node in done.case.graph.nodes) == ["Add", "Mul"]
    assert done.figures.candidates < full.figures.candidates and done.figures.known == fusion.own
    innocent = replace(fusion, passes=("Tidy",))
    done, _ = reduce(2, innocent)
    assert done.cause is None and done.figures.nodes[1] == 2
    with pytest.raises(Unexplained, match="another cause"):
        reduce(2, innocent, only_known=True)


@pytest.mark.parametrize("outputs, known", [(("y",), True), (("b", "y"), False)])
def test_what_is_wrong_in_the_rest_counts_only_where_it_was_an_output(outputs, known):
    """Without Tan, which is known, Erf's result becomes an output."""
    whole = graph(("Erf", "x", "b"), ("Tan", "b", "y"))
    case = replace(fails(whole, ("Tan",)).case, graph=replace(whole, outputs=outputs))
    asked = known_of(Slots("Erf", "Tan"), cause("Tan"), judged=True)
    rest = asked.without(replace(fails(whole, ("Tan",)), case=case))
    assert (asked.found is not None) == known
    assert rest.case.graph.operators == (("Tan",) if known else ("Erf",))
