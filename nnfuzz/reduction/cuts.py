"""Passes that take nodes, outputs and weights away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from nnfuzz.check.versions import version_of
from nnfuzz.ir.graph import Graph, Node, pruned
from nnfuzz.materialize.opsets import CALLED_DIRECT, OPSETS, is_called, once
from nnfuzz.reduction.edit import Edit
from nnfuzz.reduction.subject import (
    Inapplicable,
    Subject,
    at_each_size,
    clipped,
    fixed,
    node_id,
    of_calls,
    rebuilt,
    restricted,
)
from nnfuzz.vary.rewrite.rewriting import form_name, parse_form

MOST_NEIGHBOURHOODS = 90
LARGEST = 3
"""Nodes of the connected sub-graphs that are tried by themselves."""


# -- the exporter -----------------------------------------------------------------------------


def propose_direct(subject: Subject) -> Iterator[Edit]:
    """Call the program once, with the inputs of each call in turn. Then emit the model without
    PyTorch's exporters and without rewrites; where that is done, all calls side by side in one
    model. Then leave out each call in turn.
    """
    every = range(len(at_each_size(subject)))
    yield from (Edit("direct", value=[call]) for call in every if len(every) > 1)
    if subject.exporter != "direct":
        yield Edit("direct")
    if len(every) > 2:
        yield from (Edit("direct", value=[k for k in every if k != call]) for call in every)


def apply_direct(subject: Subject, edit: Edit) -> Subject:
    """value: the numbers of the calls that stay; None if all do."""
    if edit.value is not None:
        return of_calls(subject, edit.value)
    if subject.exporter == CALLED_DIRECT:
        return fixed(subject)
    direct = CALLED_DIRECT if is_called(subject.exporter) else "direct"
    return replace(subject, exporter=direct)


def propose_rewrites(subject: Subject) -> Iterator[Edit]:
    """One rewrite of the model alone, each in turn; then without the first half, without the
    second, and without each of them.
    """
    exporter, steps = parse_form(subject.exporter)
    alone = [(step,) for step in steps] if len(steps) > 1 else []
    middle = len(steps) // 2
    halves = [steps[middle:], steps[:middle]] if len(steps) > 3 else []
    fewer = [steps[:i] + steps[i + 1 :] for i in range(len(steps)) if len(steps) > 2]
    for rest in dict.fromkeys([*alone, *halves, *fewer]):
        yield Edit("rewrites", value=form_name(exporter, rest))


def apply_rewrites(subject: Subject, edit: Edit) -> Subject:
    return replace(subject, exporter=edit.value)


# -- outputs ----------------------------------------------------------------------------------


def propose_outputs(subject: Subject) -> Iterator[Edit]:
    """One output alone, each in turn; then all but one."""
    outputs = subject.graph.outputs
    if len(outputs) > 1:
        yield from (Edit("outputs", value=[name]) for name in outputs)
    if len(outputs) > 2:
        yield from (Edit("outputs", value=[o for o in outputs if o != name]) for name in outputs)


def apply_outputs(subject: Subject, edit: Edit) -> Subject:
    """value: the outputs to keep or to have."""
    if any(name not in subject.graph.values for name in edit.value):
        raise Inapplicable(f"{edit.value} is gone")
    graph = subject.graph
    cut = pruned(graph.values, graph.nodes, graph.inputs, graph.weights, edit.value)
    return restricted(subject, cut, {})


def propose_halves(subject: Subject) -> Iterator[Edit]:
    """The first half of all nodes, the first three quarters, ... all but the last node.

    What fails while a model is translated mostly does so at one node, which is the last one then.
    """
    nodes = subject.graph.nodes
    left = len(nodes)
    while left > 1:
        left //= 2
        kept = nodes[: len(nodes) - left]
        read = {name for node in kept for name in node.inputs}
        ends = [name for node in kept for name in node.outputs if name not in read]
        yield Edit("halves", value=ends)


# -- sub-graphs -------------------------------------------------------------------------------


def propose_neighbourhoods(subject: Subject) -> Iterator[Edit]:
    """Connected sub-graphs of 1, 2 and 3 nodes, fed with the values of the whole.

    Values that were computed become inputs; for one and two nodes also constants.
    """
    sets = list(_connected(subject.graph))[:MOST_NEIGHBOURHOODS]
    for nodes in sets:
        yield Edit("neighbourhoods", "input", nodes)
    for nodes in sets:
        if len(nodes) < LARGEST:
            yield Edit("neighbourhoods", "weight", nodes)


def _connected(graph: Graph) -> Iterator[list[str]]:
    """Ids of connected sets of nodes, in topological order within, smallest sets first."""
    order = {node_id(node): i for i, node in enumerate(graph.nodes)}
    producer = graph.producer()
    linked: dict[str, set[str]] = {name: set() for name in order}
    for node in graph.nodes:
        for name in node.inputs:
            if name in producer:
                linked[node_id(node)].add(node_id(producer[name]))
                linked[node_id(producer[name])].add(node_id(node))
    level = [frozenset([name]) for name in reversed(order)]
    for _ in range(min(LARGEST, len(order) - 1)):
        yield from (sorted(nodes, key=order.__getitem__) for nodes in level)
        level = list(
            dict.fromkeys(
                nodes | {other}
                for nodes in level
                for name in sorted(nodes, key=order.__getitem__)
                for other in sorted(linked[name] - nodes, key=order.__getitem__)
            )
        )


def apply_neighbourhoods(subject: Subject, edit: Edit) -> Subject:
    """target: what computed values become, "input" or "weight". value: ids of the nodes kept."""
    graph = subject.graph
    kept = [node for node in graph.nodes if node_id(node) in set(edit.value)]
    if len(kept) < len(edit.value):
        raise Inapplicable("a node is gone")
    made = {name for node in kept for name in node.outputs}
    read = dict.fromkeys(name for node in kept for name in node.inputs)
    outputs = [n for node in kept for n in node.outputs if n not in read]
    return _fed(subject, kept, outputs, {n: edit.target for n in read if n not in made})


def _fed(subject: Subject, nodes: list[Node], outputs: list[str], roles: dict[str, str]) -> Subject:
    """Some of the nodes; what they read and nobody computes becomes an input or a weight."""
    graph, values = subject.graph, subject.values
    params = {*graph.inputs, *graph.weights}
    new = {name: role for name, role in roles.items() if name not in params}
    inputs = [*graph.inputs, *(n for n, role in new.items() if role == "input")]
    weights = [*graph.weights, *(n for n, role in new.items() if role == "weight")]
    cut = pruned(graph.values, nodes, inputs, weights, outputs)
    return restricted(subject, cut, {name: values[name] for name in new})


# -- single nodes -----------------------------------------------------------------------------


def propose_replacements(subject: Subject) -> Iterator[Edit]:
    """Nodes whose outputs become inputs; several of them cut off everything before a place."""
    if len(subject.graph.nodes) > 1:
        yield from (Edit("replacements", node_id(n)) for n in subject.graph.nodes)


def apply_replacement(subject: Subject, edit: Edit) -> Subject:
    """target: the node."""
    gone = subject.node(edit.target)
    rest = [node for node in subject.graph.nodes if node is not gone]
    if any(name in subject.graph.outputs for name in gone.outputs):
        raise Inapplicable("an output of the model")
    return _fed(subject, rest, subject.graph.outputs, dict.fromkeys(gone.outputs, "input"))


def propose_bypasses(subject: Subject) -> Iterator[Edit]:
    """Nodes whose (first) output is replaced by one of their inputs, of any shape that fits."""
    graph = subject.graph
    if len(graph.nodes) == 1:
        return
    for node in reversed(graph.nodes):
        for name in dict.fromkeys(node.inputs):
            if graph.type(name).dtype is graph.type(node.outputs[0]).dtype:
                yield Edit("bypasses", node_id(node), name)


def apply_bypass(subject: Subject, edit: Edit) -> Subject:
    """target: the node; value: the input that takes the place of its outputs."""
    node = subject.node(edit.target)
    if edit.value not in node.inputs:
        raise Inapplicable(f"{edit.target} does not read {edit.value}")
    graph = subject.graph
    rename = dict.fromkeys(node.outputs, edit.value)
    params = {*graph.inputs, *graph.weights}
    if any(rename.get(name, name) in params for name in graph.outputs):
        raise Inapplicable("an input would be an output")
    cut = rebuilt(graph, {}, rename=rename, drop=[node_id(node)])
    subject = restricted(subject, cut, {})
    return replace(subject, params=clipped(cut, subject.params))


# -- operands ---------------------------------------------------------------------------------


def propose_operands(subject: Subject) -> Iterator[Edit]:
    """Inputs that operators can do without."""
    for node in subject.graph.nodes:
        for i in reversed(range(len(node.inputs))):
            if len(node.inputs) > node.op.arity()[0] and node.op.without_input(i) is not None:
                yield Edit("operands", node_id(node), i)


def apply_operand(subject: Subject, edit: Edit) -> Subject:
    """target: the node; value: the position of the input."""
    graph, node, i = subject.graph, subject.node(edit.target), edit.value
    op = node.op.without_input(i) if i < len(node.inputs) else None
    if op is None:
        raise Inapplicable(f"{node!r} needs its input {i}")
    fewer = Node(op, (*node.inputs[:i], *node.inputs[i + 1 :]), node.outputs)
    nodes = [fewer if n is node else n for n in graph.nodes]
    return restricted(subject, rebuilt(replace(graph, nodes=nodes), {}), {})


# -- parameters -------------------------------------------------------------------------------


def propose_unfreezing(subject: Subject) -> Iterator[Edit]:
    """Weights that become inputs."""
    yield from (Edit("unfreezing", name) for name in subject.graph.weights)


def apply_unfreezing(subject: Subject, edit: Edit) -> Subject:
    graph = subject.graph
    if edit.target not in graph.weights:
        raise Inapplicable(f"{edit.target} is no weight")
    weights = [name for name in graph.weights if name != edit.target]
    inputs = [*graph.inputs, edit.target]
    return replace(subject, graph=replace(graph, inputs=inputs, weights=weights))


def propose_sharing(subject: Subject) -> Iterator[Edit]:
    """Parameters whose place another one of the same type takes."""
    graph = subject.graph
    names = [*graph.inputs, *graph.weights]
    for i, name in enumerate(names):
        for other in names[:i]:
            if graph.type(name).same(graph.type(other)):
                yield Edit("sharing", name, other)


def apply_sharing(subject: Subject, edit: Edit) -> Subject:
    if edit.target not in subject.params or edit.value not in subject.params:
        raise Inapplicable("a parameter is gone")
    cut = rebuilt(subject.graph, {}, rename={edit.target: edit.value})
    return restricted(subject, cut, {})


def propose_opsets(subject: Subject) -> Iterable[Edit]:
    """The newest opset of all versions that the operators of the model have had since its own, the
    last one first.
    """
    exporter, _ = parse_form(subject.exporter)
    last = min(subject.newest, OPSETS.get(once(exporter), OPSETS["direct"])[1])
    later = range(last, subject.opset, -1)
    return [Edit("opsets", value=o) for o in later if o == last or _differs(subject, o)]


def _differs(subject: Subject, opset: int) -> bool:
    """Whether an operator has another version at the next opset."""
    specs = {type(node.op) for node in subject.graph.nodes}
    return any(version_of(s, opset) != version_of(s, opset + 1) for s in specs)  # type: ignore[arg-type]


def apply_opset(subject: Subject, edit: Edit) -> Subject:
    return replace(subject, opset=edit.value)
