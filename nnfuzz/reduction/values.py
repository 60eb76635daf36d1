"""Passes that simplify attributes, dtypes, and the numbers in inputs and weights."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nnfuzz.ir.dtypes import FLOAT8S, INT4S, DType, is_floating, plain
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.attributes import Attribute, Choice, encode
from nnfuzz.operators.body import Body
from nnfuzz.operators.operator import OpSpec
from nnfuzz.reduction.edit import FOCUS, Edit
from nnfuzz.reduction.subject import (
    ONES,
    SIZES,
    Inapplicable,
    Subject,
    array_cost,
    clipped,
    declaration,
    node_id,
    rebuilt,
    restricted,
    value_cost,
)

# -- attributes -------------------------------------------------------------------------------


def propose_attributes(subject: Subject) -> Iterator[Edit]:
    """Simpler values of every attribute. value: [attribute, value]."""
    for node in subject.graph.nodes:
        for name, value in node.op.attributes.items():
            if name not in SIZES and name != "perm":
                for simpler in simpler_values(node.op, name, value):
                    yield Edit("attributes", node_id(node), [name, encode(simpler)])


def simpler_values(op: OpSpec, name: str, value: Any) -> list[object]:
    declared = declaration(op, name)
    cost = value_cost(name, value, declared)
    if not cost:
        return []
    candidates: list[object]
    if isinstance(value, Body):
        candidates = list(_of_body(value))
    elif isinstance(value, tuple) and any(isinstance(v, str) for v in value):
        candidates = [()]
    elif isinstance(value, tuple):
        candidates = [(int(name in ONES),) * len(value)]
        candidates += [
            (*value[:i], v, *value[i + 1 :])
            for i, old in enumerate(value)
            for v in _less(name, old)
        ]
    elif isinstance(value, DType):
        candidates = [DType.FLOAT32] if value.is_float else [DType.INT64, DType.INT32]
    elif isinstance(value, str):
        options = declared.options if isinstance(declared, Choice) else None
        candidates = list(options) if isinstance(options, tuple) else []
    else:
        candidates = _less(name, value)
    candidates = [v for v in candidates if _admitted(declared, v)]
    costs = {i: value_cost(name, v, declared) for i, v in enumerate(candidates)}
    return [candidates[i] for i in sorted(costs, key=lambda i: costs[i]) if costs[i] < cost]


def _of_body(body: Body) -> Iterator[Body]:
    """Bodies with a step less, or a simpler operator in a step."""
    yield from body.shorter()
    for i, step in enumerate(body.steps):
        for name, value in step.op.attributes.items():
            for simpler in simpler_values(step.op, name, value):
                yield body.with_step(i, type(step.op)(**{**step.op.attributes, name: simpler}))


def _admitted(declared: Attribute, value: Any) -> bool:
    """Whether the declaration allows the value, as far as it says so itself."""
    if isinstance(declared, Choice):
        return not isinstance(declared.options, tuple) or value in declared.options
    values = value if isinstance(value, tuple) else (value,)
    return all(declared.lo <= v <= declared.hi for v in values)


def _less(name: str, value: Any) -> list[object]:
    """Simpler numbers; 0 and 1 first."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    if name in ONES:
        return [type(value)(1)] if value != 1 else []
    candidates: list[Any] = [0, 1]
    candidates += [abs(value), value // 2] if isinstance(value, int) else [0.5, float(round(value))]
    kind = type(value)
    return [kind(v) for v in dict.fromkeys(candidates) if v != value]


def apply_attribute(subject: Subject, edit: Edit) -> Subject:
    """target: the node; value: the name of an attribute, and what it becomes."""
    (name, value), graph, node = edit.value, subject.graph, subject.node(edit.target)
    if name not in node.op.attributes:
        raise Inapplicable(f"{edit.target} has no {name}")
    op = type(node.op).from_json({**node.op.to_json(), name: value})
    nodes = [Node(op, n.inputs, n.outputs) if n is node else n for n in graph.nodes]
    return _retyped(subject, replace(graph, nodes=nodes), {}, {})


# -- dtypes -----------------------------------------------------------------------------------

SIMPLER = {
    DType.FLOAT64: (DType.FLOAT32,),
    DType.FLOAT16: (DType.FLOAT32,),
    DType.BFLOAT16: (DType.FLOAT32,),
    **dict.fromkeys(FLOAT8S, (DType.FLOAT32, DType.FLOAT16)),
    **dict.fromkeys(INT4S, (DType.FLOAT32, DType.INT64, DType.INT8)),
    **dict.fromkeys(
        (DType.UINT16, DType.UINT32, DType.UINT64),
        (DType.FLOAT32, DType.INT64, DType.INT32, DType.UINT8),
    ),
    DType.INT8: (DType.FLOAT32, DType.INT64, DType.INT32),
    DType.UINT8: (DType.FLOAT32, DType.INT64, DType.INT32),
    DType.INT16: (DType.FLOAT32, DType.INT64, DType.INT32),
    DType.INT32: (DType.FLOAT32, DType.INT64),
    DType.INT64: (DType.FLOAT32,),
}
"""What does not depend on the dtype ends as float32, so that it is recognised as one finding."""


def propose_dtypes(subject: Subject) -> Iterator[Edit]:
    """One dtype instead of another, in the whole graph."""
    there = {value.type.dtype for value in subject.graph.values.values()}
    for old in sorted(there & SIMPLER.keys(), key=lambda d: d.value):
        yield from (Edit("dtypes", old.value, new.value) for new in SIMPLER[old])


def apply_dtype(subject: Subject, edit: Edit) -> Subject:
    old, new = DType(edit.target), DType(edit.value)
    graph = subject.graph
    names = [n for n in (*graph.inputs, *graph.weights) if graph.type(n).dtype is old]
    if not new.is_float and not all(np.isfinite(subject.params[name]).all() for name in names):
        raise Inapplicable(f"{new.value} has no NaN and no infinities")
    types = {name: graph.type(name).with_dtype(new) for name in names}
    params = {name: subject.params[name].astype(new.numpy) for name in names}
    nodes = [Node(_with_dtype(n.op, old, new), n.inputs, n.outputs) for n in graph.nodes]
    return _retyped(subject, replace(graph, nodes=nodes), types, params)


def _with_dtype(op: OpSpec, old: DType, new: DType) -> OpSpec:
    if old not in op.attributes.values():
        return op
    return type(op)(**{n: new if v is old else v for n, v in op.attributes.items()})


def _retyped(
    subject: Subject, graph: Graph, types: dict[Any, Any], params: dict[Any, Any]
) -> Subject:
    made = rebuilt(graph, types)
    subject = restricted(subject, made, params)
    return replace(subject, params=clipped(made, subject.params))


# -- numbers ----------------------------------------------------------------------------------

WAYS = ("zeros", "ones", "first", "integers", "decimals")
MOST_PARTS, MOST_EDITS = 14, 40
"""Parts of one array that are simplified one by one (halves, quarters, eighths), and edits of all
arrays. Single elements of larger arrays took a quarter of the time of all reductions."""


def propose_numbers(subject: Subject) -> Iterator[Edit]:
    """Simpler numbers in whole parameters, then in all but the operand of the failing element.

    value: [way, start, stop] over the flat array, and FOCUS where that element is to stay.
    """
    for kept in ([], [FOCUS]):
        for way in WAYS[: 3 if kept else None]:
            for name in (*subject.graph.weights, *subject.graph.inputs):
                array = subject.params[name]
                value = [way, 0, array.size]
                if array.size > len(kept) and _simpler_array(array, value):
                    yield Edit("numbers", name, [*value, *kept])


def propose_elements(subject: Subject) -> Iterator[Edit]:
    """Edits that put simpler numbers into halves, quarters and eighths of arrays."""
    return itertools.islice(_elements(subject), MOST_EDITS)


def _elements(subject: Subject) -> Iterator[Edit]:
    for name in (*subject.graph.weights, *subject.graph.inputs):
        array = subject.params[name]
        for start, stop in itertools.islice(_parts(array.size), MOST_PARTS):
            for way in ("zeros", "integers"):
                if _simpler_array(array, [way, start, stop]):
                    yield Edit("elements", name, [way, start, stop])


def _simpler_array(array: np.ndarray, value: list[Any]) -> bool:
    return array_cost(_simplified(array, value)) < array_cost(array)


def _parts(size: int) -> Iterator[tuple[int, int]]:
    level = [(0, size)]
    while level:
        level = [
            half
            for a, b in level
            if b - a > 1
            for half in ((a, (a + b + 1) // 2), ((a + b + 1) // 2, b))
        ]
        yield from level


def apply_numbers(subject: Subject, edit: Edit) -> Subject:
    array = subject.params.get(edit.target)
    value, focus = edit.value[:3], edit.value[3:]
    if array is None or value[2] > array.size:
        raise Inapplicable(f"{edit.target} is gone")
    made = _simplified(array, value)
    if focus:
        place = _operand(subject.graph, array.shape, *focus[0])
        made[place] = array[place]
    changed = {edit.target: made}
    return replace(subject, params=clipped(subject.graph, {**subject.params, **changed}))


def _operand(
    graph: Graph, shape: Sequence[int], output: str, index: Sequence[int]
) -> tuple[Any, ...]:
    """The element of an array of some shape that broadcasting takes to an element of an output.

    Raises: Inapplicable if it does not.
    """
    whole = graph.type(output).shape if output in graph.values else ()
    pairs = list(zip(reversed(shape), reversed(whole), reversed(index)))
    fits = all(n in (1, size) and at < size for n, size, at in pairs)
    if len(pairs) < len(shape) or not fits:
        raise Inapplicable(f"no broadcasting takes {list(shape)} to {output}")
    return tuple(0 if n == 1 else at for n, _, at in reversed(pairs))


def _simplified(array: np.ndarray, value: list[Any]) -> np.ndarray:
    """A copy with simpler numbers in a part of it."""
    way, start, stop = value
    flat = np.array(plain(array)).reshape(-1)
    part = flat[start:stop]
    if way == "zeros":
        part[...] = 0
    elif way == "ones":
        part[...] = 1
    elif way == "first":
        part[...] = part[0]
    elif is_floating(array):
        part[...] = np.round(part, 0 if way == "integers" else 1) + 0.0  # no negative zeros
    elif array.dtype != bool:
        least, most = DType.of(array.dtype).limits
        part[...] = np.clip(part, max(-9, least), min(9, most))
    return flat.reshape(array.shape).astype(array.dtype, copy=False)
