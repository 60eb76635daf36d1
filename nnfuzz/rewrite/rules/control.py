"""Rules that put a part of the model into control flow that runs it exactly once."""

from __future__ import annotations

import random

import numpy as np
import onnx

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.rewrite.draft import Draft, Nodes
from nnfuzz.rewrite.region import Region, kept_name, known_regions, renamed_nodes, repeatable
from nnfuzz.rewrite.rule import models
from nnfuzz.rewrite.rules.identities import MOVED, ints

FAMILY = "control flow"
_ZEROED = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.BOOL)
"""Dtypes whose zeros ConstantOfShape makes at every opset."""


def _zeros_exist(draft: Draft) -> list[Region]:
    regions = known_regions(draft)
    return [r for r in regions if all(draft.types[name].dtype in _ZEROED for name in r.outputs)]


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
        return str(same) if value else emit.one("Not", same)
    if what == 1:
        return emit.one("Not", emit.const(not value, DType.BOOL))
    if what == 2:
        return emit.one("Constant", value=np.asarray(value))
    return emit.const(value, DType.BOOL)


def _body(
    draft: Draft,
    name: str,
    nodes: list[onnx.NodeProto],
    outputs: dict[str, TensorType],
    inputs: dict[str, TensorType] | None = None,
) -> onnx.GraphProto:
    return onnx.GraphProto(
        name=draft.fresh(name),
        node=nodes,
        input=[protos.value_info(n, t) for n, t in (inputs or {}).items()],
        output=[protos.value_info(n, t) for n, t in outputs.items()],
    )


@models(FAMILY, _zeros_exist, uses=["If", "ConstantOfShape"])
def if_constant(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> the branch of an If whose condition always chooses it; the other branch gives zeros.
    Only the chosen branch counts."""
    emit, taken = draft.emitter(), rng.random() < 0.5
    condition = _condition(emit, draft, site, taken, rng)
    nodes, names = renamed_nodes(draft, site)
    types = [draft.types[name] for name in site.outputs]
    right = _body(draft, "taken", nodes, dict(zip(names, types)))
    other = draft.emitter()
    others = [_zeros(other, type_) for type_ in types]
    wrong = _body(draft, "untaken", other.nodes, dict(zip(others, types)))
    wrong.initializer.extend(other.initializers)
    branches = [right, wrong] if taken else [wrong, right]
    node = protos.node("If", [condition], site.outputs)
    for name, branch in zip(("then_branch", "else_branch"), branches):
        node.attribute.append(protos.attribute(name, branch))
    draft.graph.initializer.extend(emit.initializers)
    site.replaced(draft, [*emit.nodes, node])


def _choices_exist(draft: Draft) -> list[Region]:
    """Repeatable regions whose results an If may have: at opset 13, these are not bfloat16."""
    schema = onnx.defs.get_schema("If", draft.opset)
    results = schema.outputs[0].types
    types = draft.types.items()
    admitted = {name for name, type_ in types if protos.type_name(type_.dtype) in results}
    return [region for region in repeatable(draft) if admitted.issuperset(region.outputs)]


@models(FAMILY, _choices_exist, uses=["If", "Greater", "ReduceSum"])
def if_either(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> both branches of an If whose condition is computed from a value: whichever is taken,
    the same is computed."""
    emit = draft.emitter()
    sources = [n for n in draft.inputs if draft.dtype(n) in (DType.FLOAT32, DType.INT64)]
    if sources:
        name = rng.choice(sources)
        every = emit.one("Reshape", name, ints(emit, -1))
        first = emit.one("Gather", every, emit.const(0, DType.INT64), axis=0)
        condition = emit.one("Greater", first, emit.const(0, draft.types[name].dtype))
    else:
        condition = _condition(emit, draft, site, rng.random() < 0.5, rng)
    node = protos.node("If", [condition], site.outputs)
    for attribute in ("then_branch", "else_branch"):
        nodes, names = _all_renamed(draft, site)
        types = [draft.types[name] for name in site.outputs]
        branch = _body(draft, "branch", nodes, dict(zip(names, types)))
        node.attribute.append(protos.attribute(attribute, branch))
    draft.graph.initializer.extend(emit.initializers)
    site.replaced(draft, [*emit.nodes, node])


def _all_renamed(draft: Draft, site: Region) -> tuple[list[onnx.NodeProto], list[str]]:
    """Copies of nodes with new names for all values that they compute, and the output names."""
    nodes = site.nodes(draft)
    made = [name for node in nodes for name in node.output if name]
    names = {name: draft.fresh("in") for name in made}
    return [kept_name(node, names) for node in nodes], [names[name] for name in site.outputs]


@models(FAMILY, _zeros_exist, uses=["Loop", "ConstantOfShape"])
def loop_once(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> the body of a Loop that runs once, by its trip count, its condition or both. Results
    are its state behind the only iteration, or its scanned outputs without their axis of size 1."""
    emit = draft.emitter()
    nodes, names = renamed_nodes(draft, site)
    types = [draft.types[name] for name in site.outputs]
    by_count, carried = rng.random() < 0.7, rng.random() < 0.5
    once = emit.const(1, DType.INT64) if by_count else ""
    go = emit.const(True, DType.BOOL) if rng.random() < 0.5 or not by_count else ""
    iteration, before, after = (draft.fresh(s) for s in ("iteration", "before", "after"))
    body = draft.emitter()
    body.nodes.extend(nodes)
    ends = emit.const(by_count and rng.random() < 0.5, DType.BOOL)
    condition = before if by_count and rng.random() < 0.5 else ends
    body.nodes.append(protos.node("Identity", [condition], [after]))
    inputs = {
        iteration: TensorType(DType.INT64, ()),
        before: TensorType(DType.BOOL, ()),
    }
    states: list[str] = []
    if carried:
        inputs |= {draft.fresh("state"): type_ for type_ in types}
        states = [_zeros(emit, type_) for type_ in types]
    outputs = {after: TensorType(DType.BOOL, ())} | dict(zip(names, types))
    graph = _body(draft, "loop", body.nodes, outputs, inputs)
    results = [*site.outputs] if carried else [draft.fresh("scanned") for _ in names]
    node = protos.node("Loop", [once, go, *states], results)
    node.attribute.append(protos.attribute("body", graph))
    behind = draft.emitter()
    if not carried:
        axes = ints(behind, 0)
        behind.nodes += [
            protos.node("Squeeze", [name, axes], [wanted])
            for name, wanted in zip(results, site.outputs)
        ]
    draft.graph.initializer.extend((*emit.initializers, *behind.initializers))
    site.replaced(draft, [*emit.nodes, node, *behind.nodes])


def _scannable(draft: Draft) -> list[Region]:
    return [
        r
        for r in known_regions(draft)
        if _scanned(draft, r) and all(draft.dtype(name) in MOVED for name in r.outputs)
    ]


def _scanned(draft: Draft, site: Region) -> list[str]:
    """Values that a Scan may iterate over: all but constants."""
    return [n for n in site.inputs if draft.dtype(n) in MOVED and n not in draft.constants]


@models(FAMILY, _scannable, uses=["Scan", "Unsqueeze", "Squeeze"])
def scan_once(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> the body of a Scan over sequences of one element: their only element goes in, and
    what comes out has a first axis of 1, which is taken away."""
    emit, behind = draft.emitter(), draft.emitter()
    sequences = _scanned(draft, site)
    sequences = rng.sample(sequences, rng.randint(1, len(sequences)))
    nodes, names = renamed_nodes(draft, site)
    elements = {name: draft.fresh("element") for name in sequences}
    nodes = [kept_name(node, elements) for node in nodes]
    inputs = {elements[name]: draft.types[name] for name in sequences}
    outputs = dict(zip(names, [draft.types[name] for name in site.outputs]))
    graph = _body(draft, "scan", nodes, outputs, inputs)
    axes = ints(emit, 0)
    stacked = [emit.one("Unsqueeze", name, axes) for name in sequences]
    results = [draft.fresh("scanned") for _ in names]
    node = protos.node("Scan", stacked, results)
    node.attribute.append(protos.attribute("body", graph))
    node.attribute.append(protos.attribute("num_scan_inputs", len(sequences)))
    behind.nodes += [
        protos.node("Squeeze", [name, axes], [wanted])
        for name, wanted in zip(results, site.outputs)
    ]
    draft.graph.initializer.extend(emit.initializers)
    site.replaced(draft, [*emit.nodes, node, *behind.nodes])


RULES = (if_constant, if_either, loop_once, scan_once)
