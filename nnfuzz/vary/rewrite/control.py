"""Rules that move a part of the model into control flow that runs it exactly once, or into a
function that is called by name."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.materialize.emit import rename_in_place
from nnfuzz.materialize.walk import bodies, reads
from nnfuzz.vary.rewrite.draft import (
    Draft,
    Kind,
    Nodes,
    Region,
    known_regions,
    models,
    names_in,
    renamed_nodes,
)
from nnfuzz.vary.rewrite.operators import MOVED, ints

FAMILY = "control flow"
_ZEROED = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.BOOL)
"""Dtypes whose zeros ConstantOfShape can make at every opset."""


def _of(draft: Draft, dtypes: Sequence[DType]) -> list[Region]:
    """Regions (consecutive nodes) whose results have these dtypes."""
    regions = known_regions(draft)
    return [r for r in regions if all(draft.types[name].dtype in dtypes for name in r.outputs)]


def _zeros_exist(draft: Draft) -> list[Region]:
    return _of(draft, _ZEROED)


def _zeros(emit: Nodes, type_: TensorType) -> str:
    value = np.zeros(1, type_.dtype.numpy)
    return emit.one("ConstantOfShape", ints(emit, *type_.sizes), value=value)


def _condition(emit: Nodes, draft: Draft, region: Region, value: bool, rng: random.Random) -> str:
    """A condition that is always `value`: a constant, or computed from a shape."""
    sized = [name for name in region.inputs if draft.rank(name) > 0]
    what = rng.randrange(4)
    if what == 0 and sized:
        name = rng.choice(sized)
        size = emit.const(draft.types[name].elements, DType.INT64)
        same = emit.one("Equal", emit.one("Size", name), size)
        return same if value else emit.one("Not", same)
    if what == 1:
        return emit.one("Not", emit.const(not value, DType.BOOL))
    if what == 2:
        return emit.one("Constant", value=np.asarray(value))
    return emit.const(value, DType.BOOL)


def _body(
    draft: Draft,
    nodes: Sequence[onnx.NodeProto],
    outputs: Mapping[str, TensorType],
    inputs: Mapping[str, TensorType] | None = None,
) -> onnx.GraphProto:
    return onnx.GraphProto(
        name=draft.fresh("body"),
        node=nodes,
        input=[protos.value_info(n, t) for n, t in (inputs or {}).items()],
        output=[protos.value_info(n, t) for n, t in outputs.items()],
    )


def _put(
    draft: Draft,
    site: Region,
    emit: Nodes,
    graphs: Mapping[str, onnx.GraphProto],
    stacked: bool = False,
) -> None:
    """Replace a region by nodes; the last one gets the sub-graphs `graphs`.

    stacked: whether its outputs have a first axis of size 1, which has to be removed.
    """
    for name, graph in graphs.items():
        emit.nodes[-1].attribute.append(protos.attribute(name, graph))
    for name, wanted in zip(emit.nodes[-1].output, site.outputs if stacked else ()):
        emit.nodes.append(protos.node("Squeeze", [name, ints(emit, 0)], [wanted]))
    draft.graph.initializer.extend(emit.initializers)
    site.replaced(draft, emit.nodes)


@models(FAMILY, _zeros_exist, uses=["If", "ConstantOfShape"])
def if_constant(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> the branch of an If whose condition always chooses it; the other branch gives zeros.
    Only the chosen branch is executed."""
    emit, other, taken = draft.emitter(), draft.emitter(), rng.random() < 0.5
    types = [draft.types[name] for name in site.outputs]
    nodes, names = renamed_nodes(draft, site)
    right = _body(draft, nodes, dict(zip(names, types)))
    zeros = {_zeros(other, type_): type_ for type_ in types}
    wrong = _body(draft, other.nodes, zeros)
    wrong.initializer.extend(other.initializers)
    condition = _condition(emit, draft, site, taken, rng)
    emit.nodes.append(protos.node("If", [condition], site.outputs))
    branches = (right, wrong) if taken else (wrong, right)
    _put(draft, site, emit, dict(zip(("then_branch", "else_branch"), branches)))


@models(FAMILY, _zeros_exist, uses=["Loop", "ConstantOfShape"])
def loop_once(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> the body of a Loop that runs once, by its trip count, its condition or both. The
    results are the final state, or scan outputs without their first axis, which has size 1."""
    emit = draft.emitter()
    nodes, names = renamed_nodes(draft, site)
    types = [draft.types[name] for name in site.outputs]
    by_count, carried = rng.random() < 0.7, rng.random() < 0.5
    once = emit.const(1, DType.INT64) if by_count else ""
    go = emit.const(True, DType.BOOL) if rng.random() < 0.5 or not by_count else ""
    iteration, before, after = (draft.fresh(s) for s in ("iteration", "before", "after"))
    ends = emit.const(by_count and rng.random() < 0.5, DType.BOOL)
    condition = before if by_count and rng.random() < 0.5 else ends
    truth = TensorType(DType.BOOL, ())
    inputs = {iteration: TensorType(DType.INT64, ()), before: truth}
    inputs |= {draft.fresh("state"): type_ for type_ in types if carried}
    nodes = [*nodes, protos.node("Identity", [condition], [after])]
    body = _body(draft, nodes, {after: truth, **dict(zip(names, types))}, inputs)
    states = [_zeros(emit, type_) for type_ in types if carried]
    results = site.outputs if carried else [draft.fresh("scanned") for _ in names]
    emit.nodes.append(protos.node("Loop", [once, go, *states], results))
    _put(draft, site, emit, {"body": body}, stacked=not carried)


def _scannable(draft: Draft) -> list[Region]:
    return [region for region in _of(draft, MOVED) if _scanned(draft, region)]


def _scanned(draft: Draft, site: Region) -> list[str]:
    """Values that a Scan may iterate over: all but constants."""
    return [n for n in site.inputs if draft.dtype(n) in MOVED and n not in draft.constants]


@models(FAMILY, _scannable, uses=["Scan", "Unsqueeze", "Squeeze"])
def scan_once(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> the body of a Scan over sequences of one element: the body reads that element, and
    the first axis of the results, which has size 1, is removed."""
    emit, sequences = draft.emitter(), _scanned(draft, site)
    sequences = rng.sample(sequences, rng.randint(1, len(sequences)))
    elements = {name: draft.fresh("element") for name in sequences}
    nodes, names = renamed_nodes(draft, site, elements)
    inputs = {elements[name]: draft.types[name] for name in sequences}
    outputs = dict(zip(names, [draft.types[name] for name in site.outputs]))
    body = _body(draft, nodes, outputs, inputs)
    stacked = [emit.one("Unsqueeze", name, ints(emit, 0)) for name in sequences]
    node = protos.node("Scan", stacked, [draft.fresh("scanned") for _ in names])
    node.attribute.append(protos.attribute("num_scan_inputs", len(sequences)))
    emit.nodes.append(node)
    _put(draft, site, emit, {"body": body}, stacked=True)


FUNCTIONS = "functions"
DOMAIN = "nnfuzz.local"
IR_VERSION = 8
"""The first IR version in which a model may have functions."""


def _declared(
    draft: Draft,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> str:
    """Add a function to the model; returns its name."""
    draft.needs_ir(IR_VERSION)
    if all(entry.domain != DOMAIN for entry in draft.model.opset_import):
        draft.model.opset_import.add(domain=DOMAIN, version=1)
    name = f"part_{len(draft.model.functions)}"
    imports = draft.model.opset_import
    draft.model.functions.append(
        onnx.FunctionProto(
            name=name, domain=DOMAIN, node=nodes, input=inputs, output=outputs,
            opset_import=imports,
        )
    )  # fmt: skip
    return name


def _call(function: str, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    return protos.node(f"{DOMAIN}.{function}", inputs, outputs)


def _outlined(
    draft: Draft, site: Region, rng: random.Random
) -> tuple[list[onnx.NodeProto], list[str]]:
    """The nodes of a region as those of a function, and the names of the function's parameters.

    Inside, values keep their names or are called x0, x1, ..., as in other functions: each function
    has a scope of its own.
    """
    nodes, inputs = site.nodes(draft), [*site.inputs]
    if rng.random() < 0.5:
        taken = {name for node in nodes for name in (*node.output, *reads(node))}
        taken |= {name for node in nodes for body in bodies(node) for name in names_in(body)}
        fresh = (name for i in range(1 << 20) if (name := f"x{i}") not in taken)
        names = dict(zip(inputs, fresh))
        nodes, inputs = [rename_in_place(node, names) for node in nodes], [*names.values()]
    return nodes, inputs


@models(FUNCTIONS, known_regions, kind=Kind.FORM)
def function(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> a call of a model-local function that consists of them: ONNX defines the call as
    these nodes, with its inputs in place of the parameters."""
    name = _declared(draft, *_outlined(draft, site, rng), site.outputs)
    site.replaced(draft, [_call(name, site.inputs, site.outputs)])


@models(FUNCTIONS, lambda draft: [r for r in known_regions(draft) if r.stop - r.start > 1])
def nested_function(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> a function whose first or last nodes are a call of another function."""
    nodes, parameters = _outlined(draft, site, rng)
    cut, front = rng.randint(1, len(nodes) - 1), rng.random() < 0.5
    part, rest = (nodes[:cut], nodes[cut:]) if front else (nodes[cut:], nodes[:cut])
    own = [name for node in part for name in node.output if name]
    wanted = {*site.outputs, *(name for node in rest for name in reads(node))}
    outputs = [name for name in own if name in wanted] or own[:1]  # if nothing reads the results
    inputs = [n for n in dict.fromkeys(n for node in part for n in reads(node)) if n not in own]
    call = _call(_declared(draft, part, inputs, outputs), inputs, outputs)
    nodes = [call, *rest] if front else [*rest, call]
    name = _declared(draft, nodes, parameters, site.outputs)
    site.replaced(draft, [_call(name, site.inputs, site.outputs)])


RULES = (
    function,
    nested_function,
    if_constant,
    loop_once,
    scan_once,
)
