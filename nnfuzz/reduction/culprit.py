"""Finds the operator at which a wrong result begins, so that reduction keeps it.

A model may give wrong results for several causes; the reduced one must fail for the cause that its
finding is about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.ir.view import GraphView, NodeView
from nnfuzz.reduction.candidate import CandidateQuestion, Tried
from nnfuzz.reduction.edit import Edit
from nnfuzz.reduction.trials import Trials
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
