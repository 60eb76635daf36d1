"""A pass that puts the body of a control-flow operator in the operator's place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nnfuzz.ir.graph import Node, Value
from nnfuzz.reduce.edit import Edit
from nnfuzz.reduce.subject import Inapplicable, Subject, node_id, rebuilt, restricted
from nnfuzz.spec.body import Execution
from nnfuzz.spec.families.control import ControlFlow


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
    graph = subject.graph
    node = next((n for n in graph.nodes if node_id(n) == edit.target), None)
    execution = node and _execution(subject, node)
    if not node or not execution:
        raise Inapplicable(f"{edit.target} is gone")
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
