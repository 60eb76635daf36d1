"""What explains a wrong result, tested: the same graph computed with one thing ignored.

A hypothesis predicts an envelope of its own. It is consistent with a run if the outputs lie in that
envelope. Small numbers fit many hypotheses, so what counts is what is consistent with the reduced
case and with other inputs that fail as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nnfuzz.compare.deviating import explains
from nnfuzz.compare.envelope import Envelope, envelopes
from nnfuzz.compare.mismatch import MismatchKind
from nnfuzz.compare.reference import ReferenceFault
from nnfuzz.compare.verdict import compare
from nnfuzz.execute.deviation import CONSIDERED, Deviation
from nnfuzz.ir.dtypes import DType, plain
from nnfuzz.ir.graph import Graph, GraphError, Node
from nnfuzz.reduction.subject import Inapplicable, Subject, rebuilt, restricted
from nnfuzz.reduction.values import simpler_values
from nnfuzz.spec.operator import ConstraintError, OpSpec
from nnfuzz.triage.general import schema_defaults

Arrays = Mapping[str, np.ndarray]
_COARSE = ("bfloat16", "float16")
"""Types whose interval admits many a wrong value."""
MOST_NODES = 3
"""A larger graph is not reduced: what it computes has too many explanations."""


def consistent(subject: Subject, outputs: Arrays) -> list[str]:
    """The hypotheses that predict the outputs, in sentences without a subject ("ignores axis").

    Those that predict values come first: attributes and inputs in the order of nodes. Without one,
    the first narrower type counts, whose interval admits more, or how all elements of the result
    differ. None where the outputs are right.
    """
    if len(subject.graph.nodes) > MOST_NODES:
        return []
    try:
        truth = envelopes(subject.graph, subject.params)
    except ReferenceFault:
        return []
    wrong = compare(truth, outputs)
    if not wrong:
        return []
    found = [text for text, other in _alternatives(subject) if _predicts(other, truth, outputs)]
    if not found:
        found = [str(h) for h in CONSIDERED if _deviates(h, subject, outputs)][:1]
    if not found and all(m.kind is MismatchKind.DTYPE for m in wrong):
        operator = subject.graph.nodes[-1].op.name
        found = [f"{operator} returns {m.actual} for {m.expected}" for m in wrong]
    if not found:
        found = [text for text, other in _relations(subject, truth) if not compare(other, outputs)]
    return list(dict.fromkeys(found))


def _relations(
    subject: Subject, truth: Mapping[str, Envelope]
) -> Iterator[tuple[str, Mapping[str, Envelope]]]:
    """What the only result may be instead: 0, another sign, one more or less, an input, ..."""
    if len(truth) != 1:
        return
    ((name, right),) = truth.items()
    operator = subject.graph.nodes[-1].op.name

    def moved(change: Callable[[np.ndarray], np.ndarray]) -> Mapping[str, Envelope]:
        with np.errstate(all="ignore"):
            ends = [change(end) for end in (right.ref, right.lo, right.hi)]
        lo, hi = np.minimum(ends[1], ends[2]), np.maximum(ends[1], ends[2])
        return {name: Envelope(right.dtype, ends[0], lo, hi, right.any)}

    if right.dtype.is_bool:
        yield f"{operator} returns the contrary", moved(np.logical_not)
    else:
        yield f"{operator} returns 0", moved(np.zeros_like)
        yield f"{operator} is one too large", moved(lambda end: end + 1)
        yield f"{operator} is one too small", moved(lambda end: end - 1)
        yield f"{operator} has the opposite sign", moved(np.negative)
    for i, given in enumerate(subject.graph.nodes[-1].inputs):
        value = subject.values[given]
        if value.shape == right.ref.shape and DType.of(value.dtype) is right.dtype:
            same = plain(value).astype(right.ref.dtype)
            yield f"{operator} returns input {i}", moved(lambda end, same=same: same)  # type: ignore[misc]


def _deviates(habit: Deviation, subject: Subject, outputs: Arrays) -> bool:
    there = {value.type.dtype.value for value in subject.graph.values.values()}
    if habit.to in _COARSE and not all(_rounded(a, DType(habit.to)) for a in outputs.values()):
        return False
    try:
        return habit.dtype in there and explains([habit], subject.graph, subject.params, outputs)
    except ReferenceFault:
        return False


def _rounded(array: np.ndarray, dtype: DType) -> bool:
    """Whether a dtype holds all elements: what was computed in 8 bits of mantissa shows it."""
    with np.errstate(all="ignore"):
        return bool((array.astype(dtype.numpy).astype(array.dtype) == array).all())


def _predicts(other: Subject, truth: Mapping[str, Envelope], outputs: Arrays) -> bool:
    """Whether an altered graph yields the outputs, and something else than the true one."""
    try:
        predicted = envelopes(other.graph, other.params)
    except ReferenceFault:
        return False
    if predicted.keys() != truth.keys() or compare(predicted, outputs):
        return False
    wrong = [m.output for m in compare(truth, outputs)]
    return all(bool(predicted[name].comparable.any()) for name in wrong)


def _alternatives(subject: Subject) -> Iterator[tuple[str, Subject]]:
    """The graph with one attribute or input of one node ignored."""
    for node in subject.graph.nodes:
        usual = schema_defaults(node.op.name)
        for name, value in node.op.attributes.items():
            for other in _others(node.op, name, value, usual.get(name)):
                op = type(node.op)(**{**node.op.attributes, name: other})
                yield from _made(f"{node.op.name} ignores {name}", subject, node, op, node.inputs)
        for i, name in enumerate(node.inputs):
            fewer = node.op.without_input(i)
            if fewer is not None:
                rest = (*node.inputs[:i], *node.inputs[i + 1 :])
                yield from _made(f"{node.op.name} ignores input {i}", subject, node, fewer, rest)
            elif name in subject.params and i > 0:
                zeros = {**subject.params, name: np.zeros_like(subject.params[name])}
                text = f"{node.op.name} takes input {i} for 0"
                yield text, replace(subject, params=zeros)


def _others(op: OpSpec, name: str, value: Any, usual: Any) -> list[Any]:
    """What an attribute may be taken for: its default in ONNX, or something simpler."""
    default = [] if usual is None or usual == value else [usual]
    return default + [v for v in simpler_values(op, name, value) if v != usual]


def _made(
    text: str, subject: Subject, node: Node, op: OpSpec, inputs: tuple[str, ...]
) -> Iterator[tuple[str, Subject]]:
    """The subject with another node, if the graph admits it."""
    graph = subject.graph
    nodes = [Node(op, inputs, node.outputs) if n is node else n for n in graph.nodes]
    try:
        made = rebuilt(Graph(graph.values, nodes, graph.inputs, graph.weights, graph.outputs), {})
    except (Inapplicable, GraphError, ConstraintError):
        return
    yield text, restricted(subject, made, {})


def with_operator(subject: Subject, node_name: str, other: type[OpSpec]) -> Subject:
    """The subject with another operator at a node, whose attributes have the values of those of the
    same names.

    Raises: Inapplicable if it has others, or does not admit the inputs.
    """
    graph, node = subject.graph, subject.node(node_name)
    if not other.declared.keys() <= node.op.attributes.keys():
        raise Inapplicable(f"{other.name} has attributes of its own")
    op = other(**{name: node.op.attributes[name] for name in other.declared})
    nodes = [Node(op, n.inputs, n.outputs) if n is node else n for n in graph.nodes]
    made = rebuilt(Graph(graph.values, nodes, graph.inputs, graph.weights, graph.outputs), {})
    return restricted(subject, made, {})
