"""Experiments on a case of the reducer: where a wrong result begins, and what heals it.

A model may give wrong results for several causes; the reduced one must fail for the cause that its
finding is about, so reduction keeps the operator at which the wrong result begins. Attributes,
operands and constants are taken away one by one: operators that heal by the same may have one
cause; one operator that heals by different ones has several.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.ir.view import GraphView, NodeView
from nnfuzz.reduction.candidate import CandidateQuestion, Tried
from nnfuzz.reduction.edit import Edit, Group
from nnfuzz.reduction.trials import Trials
from nnfuzz.triage.headline import needed_attributes
from nnfuzz.triage.keys import Claim, Hypothesis
from nnfuzz.triage.mismatch import first_wrong
from nnfuzz.triage.pattern import first_copy, onnx_type, upstream
from nnfuzz.triage.signature import Failure, HabitDetails


def exposed(
    trials: Trials, question: CandidateQuestion, tried: Tried, count: int | None = None
) -> Tried:
    """Runs the first `count` nodes of a case, by default all, with every value as an output."""
    assert tried.case is not None
    names = [name for node in first_copy(tried.case.graph)[:count] for name in node.outputs]
    return trials.run(tried.case, (Edit("outputs", value=names),), question)


def kept(
    trials: Trials, question: CandidateQuestion, tried: Tried, wanted: str
) -> Callable[[GraphView], bool]:
    """Returns a predicate: whether a graph still has the operator at which the wrong result begins.

    The predicate accepts every graph if the failure is no mismatch, if a habit of the compiler
    explains it, or if the result is right once all values are outputs: the failure may then need
    several operators.
    """
    failure = next((f for f, mark in tried.failing if mark == wanted), None)
    if failure is None or failure.kind is not OutcomeKind.MISMATCH:
        return bool
    if isinstance(failure.signature.details, HabitDetails):
        return bool
    culprit = _culprit(trials, question, tried, failure)
    if culprit is None:
        return bool
    return lambda graph: any(_is_of(culprit, node.op) for node in graph.nodes)


def _culprit(
    trials: Trials, question: CandidateQuestion, tried: Tried, failure: Failure
) -> NodeView | None:
    """Returns the node at which the wrong result begins.

    This is the node of the first wrong output if it is wrong by itself, with right inputs. If not,
    it is the first node before it whose outputs are wrong. None for a graph of one node, which
    reduction cannot lose, and if no node is wrong.
    """
    assert tried.case is not None
    graph = tried.case.graph
    if len(first_copy(graph)) < 2:
        return None
    order = [name for node in graph.nodes for name in node.outputs]
    wrong = first_wrong(tried.verdict, failure.targets, order)
    if wrong is None or wrong.output not in graph.makers:
        return None
    maker = graph.makers[wrong.output]
    alone = trials.run(tried.case, (Edit("neighbourhoods", "input", [maker.outputs[0]]),), question)
    if first_wrong(alone.verdict, failure.targets, maker.outputs):
        return maker
    before = [name for node in upstream(graph, wrong.output).nodes for name in node.outputs]
    with_all_outputs = exposed(trials, replace(question, silent=()), tried)
    first = first_wrong(with_all_outputs.verdict, failure.targets, before)
    return graph.makers.get(first.output) if first and first.output in before else None


def _is_of(culprit: NodeView, operator: str) -> bool:
    """Whether an operator is the culprit, its plain mode, or an operator in the culprit's body."""
    held = re.findall(r"\w+", json.dumps(culprit.attributes))
    mode = 2 * len(operator) > len(culprit.op) and onnx_type(culprit.op, [operator])
    return operator in (culprit.op, *held) or bool(mode)  # ArgMax is no mode of Max


CONSTANT, OPERANDS = "constant", "operands"
MOST = 6
"""Things that are taken away; each costs a run of the compiler."""


def healing(
    trials: Trials, question: CandidateQuestion, best: Tried, failure: Failure
) -> tuple[str, ...]:
    """What makes a reduced case of a single operator right when it is gone: names of attributes of
    ONNX, CONSTANT where constant operands become inputs, OPERANDS where the last of more than two
    is left out.
    """
    if best.case is None or failure.kind is OutcomeKind.TIMEOUT:
        return ()
    tries = _tries(best)
    runs = {what: trials.run(best.case, edits, question) for what, edits in tries.items()}
    return tuple(what for what, tried in runs.items() if _right(tried, failure))


def _tries(best: Tried) -> Mapping[str, Group]:
    assert best.case is not None
    graph = best.case.graph
    nodes = first_copy(graph)
    if len(nodes) != 1:
        return {}
    (node,), tries = nodes, dict[str, Group]()
    if graph.weights:
        tries[CONSTANT] = tuple(Edit("unfreezing", name) for name in graph.weights)
    if len(node.inputs) > 2:
        tries[OPERANDS] = (Edit("operands", node.outputs[0], len(node.inputs) - 1),)
    for name in needed_attributes(best.case.model)[: MOST - len(tries)]:
        tries[name] = (Edit("importing", value=name),)
    return tries


def _right(tried: Tried, failure: Failure) -> bool:
    """Whether a case is right at the levels of a failure."""
    ran = {outcome.level for outcome in tried.outcomes if outcome.ok}
    return tried.case is not None and not tried.failing and ran.issuperset(failure.levels)


def narrowest_cause(heals: Sequence[str], known: Iterable[Sequence[str]]) -> Sequence[str]:
    """The one of several healing things that alone heals a known cause; all of them if there is no
    such one, or more. A compiler that ignores dilations may be right with other strides as well.
    """
    alone = {what for others in known if len(others) == 1 for what in others}
    common = alone.intersection(heals)
    return list(common) if len(heals) > 1 and len(common) == 1 else heals


def shared_key(
    heals: Collection[str], operator: str, operands: Hypothesis | None
) -> Hypothesis | None:
    """The claim that an operator shares with those of its family which become right when one and
    the same thing is removed; None if there is none. operands: that for many operands.
    """
    if len(heals) != 1:
        return None
    (what,) = heals
    if what == CONSTANT:
        return Hypothesis(Claim.ALL_CONSTANTS)
    if what == OPERANDS:
        return operands
    return Hypothesis(Claim.IGNORES, operator, what)


def healed(heals: Collection[str], operator: str) -> Hypothesis | None:
    """What heals an operator, as a claim; None if nothing does."""
    if CONSTANT in heals:
        return Hypothesis(Claim.NO_CONSTANT, operator)
    if OPERANDS in heals:
        return Hypothesis(Claim.FEWER_OPERANDS, operator)
    return Hypothesis(Claim.WITHOUT, operator, " or ".join(heals)) if heals else None
