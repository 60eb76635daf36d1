"""Passes that put the body of a control-flow operator in the operator's place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from nnfuzz.ir.graph import Graph, Node, Value, pruned
from nnfuzz.operators.body import Execution
from nnfuzz.operators.families.control import ControlFlow
from nnfuzz.reduction.edit import Edit
from nnfuzz.reduction.subject import Inapplicable, Subject, node_id, rebuilt, restricted


def propose_inlining(subject: Subject) -> Iterator[Edit]:
    """Nodes that execute a body once: a branch, a loop of one iteration."""
    for node in subject.graph.nodes:
        if _execution(subject, node) is not None:
            yield Edit("inlining", node_id(node))


def _execution(subject: Subject, node: Node) -> Execution | None:
    if not isinstance(node.op, ControlFlow):
        return None
    return node.op.executed(*[subject.values[name] for name in node.inputs])


def apply_inlining(subject: Subject, edit: Edit) -> Subject:
    """target: the node."""
    graph, node = subject.graph, subject.node(edit.target)
    execution = _execution(subject, node)
    if not execution:
        raise Inapplicable(f"{edit.target} does not execute a body once")
    steps, rename = _inlined(node, execution)
    if any(rename.get(name) in subject.params for name in graph.outputs):
        raise Inapplicable("an input would be an output")
    at = graph.nodes.index(node)
    type_ = graph.type(node.outputs[0])
    values = {**graph.values, **{n: Value(n, type_) for step in steps for n in step.outputs}}
    nodes = [*graph.nodes[:at], *steps, *graph.nodes[at + 1 :]]
    made = rebuilt(replace(graph, values=values, nodes=nodes), {}, rename=rename)
    return restricted(subject, made, {})


def _inlined(node: Node, execution: Execution) -> tuple[list[Node], dict[str, str]]:
    """The steps as nodes, and the values that stand for the outputs which no step computes."""
    body = execution.body
    wanted = dict(zip(reversed(body.outputs[: execution.outputs]), reversed(node.outputs)))
    names = [node.inputs[i] for i in execution.inputs]
    steps = []
    for i, step in enumerate(body.steps, len(names)):
        names.append(wanted.get(i, f"{node_id(node)}_{i}"))
        steps.append(Node(step.op, tuple(names[j] for j in step.inputs), (names[i],)))
    pairs = [(name, names[i]) for name, i in zip(node.outputs, body.outputs)]
    return steps, {name: source for name, source in pairs if name != source}


def propose_hoisting(subject: Subject) -> Iterator[Edit]:
    """Bodies by themselves, with what they read in the first turn, or in the last."""
    for node in subject.graph.nodes:
        last = _turns(subject, node) - 1
        yield from (Edit("hoisting", node_id(node), turn) for turn in sorted({0, last} - {-1}))


def _turns(subject: Subject, node: Node) -> int:
    if not isinstance(node.op, ControlFlow) or not any(body.steps for body in node.op.bodies):
        return 0
    return node.op.turns(*[subject.values[name] for name in node.inputs])


def apply_hoisting(subject: Subject, edit: Edit) -> Subject:
    """target: the node; value: the turn."""
    node = subject.node(edit.target)
    if not isinstance(node.op, ControlFlow) or _turns(subject, node) <= edit.value:
        raise Inapplicable(f"{edit.target} has no turn {edit.value}")
    inputs = [subject.values[name] for name in node.inputs]
    states: list[np.ndarray] = []
    for turn in range(edit.value):
        done = _once(subject, node, node.op.read(turn, states, *inputs))
        states = [done.values[name] for name in done.graph.outputs]
    whole = _once(subject, node, node.op.read(edit.value, states, *inputs))
    made = {name for step in whole.graph.nodes for name in step.outputs}
    ends = [name for name in whole.graph.outputs if name in made]
    graph = whole.graph
    cut = pruned(graph.values, graph.nodes, graph.inputs, (), ends)
    return restricted(whole, cut, {})


def _once(subject: Subject, node: Node, arguments: Sequence[np.ndarray]) -> Subject:
    """The body's steps for its arguments; its outputs are theirs, whether computed or not."""
    (body,) = node.op.bodies  # type: ignore[attr-defined]
    type_ = node.op.inner(*subject.graph.types(node.inputs))  # type: ignore[attr-defined]
    names = [f"{node_id(node)}_{i}" for i in range(body.arguments + len(body.steps))]
    steps = [
        Node(step.op, tuple(names[j] for j in step.inputs), (name,))
        for step, name in zip(body.steps, names[body.arguments :], strict=True)
    ]
    values = {name: Value(name, type_) for name in names}
    inputs, outputs = names[: body.arguments], [names[i] for i in body.outputs]
    given = {name: np.array(a, order="C") for name, a in zip(inputs, arguments, strict=True)}
    return replace(subject, graph=Graph(values, steps, inputs, [], outputs), params=given)
