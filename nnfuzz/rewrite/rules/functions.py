"""Model-local functions: parts of the model that are called by name."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import onnx

from nnfuzz.materialize import protos
from nnfuzz.materialize.walk import bodies, reads
from nnfuzz.rewrite.draft import Draft, names_in
from nnfuzz.rewrite.region import Region, kept_name, known_regions, region, repeatable
from nnfuzz.rewrite.rule import models

FAMILY = "functions"
DOMAIN = "nnfuzz.local"
IR_VERSION = 8
"""The first format version in which a model has functions."""


def _declared(
    draft: Draft,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Sequence[str] = (),
) -> onnx.FunctionProto:
    """A new function of the model."""
    draft.needs_ir(IR_VERSION)
    if all(entry.domain != DOMAIN for entry in draft.model.opset_import):
        draft.model.opset_import.add(domain=DOMAIN, version=1)
    names = {function.name for function in draft.model.functions}
    name = next(n for i in range(1 + len(names)) if (n := f"part_{i}") not in names)
    function = onnx.FunctionProto(
        name=name,
        domain=DOMAIN,
        node=nodes,
        input=inputs,
        output=outputs,
        attribute=attributes,
        opset_import=draft.model.opset_import,
    )
    draft.model.functions.append(function)
    return function


def _call(
    function: onnx.FunctionProto, inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.NodeProto:
    node = protos.node(function.name, inputs, outputs)
    node.domain = DOMAIN
    return node


def _parameters(nodes: Sequence[onnx.NodeProto], inputs: Sequence[str]) -> dict[str, str]:
    """Parameter names for the values that a function reads, unused inside of it."""
    taken = {name for node in nodes for name in (*node.output, *reads(node))}
    taken |= {name for node in nodes for body in bodies(node) for name in names_in(body)}
    names: dict[str, str] = {}
    for name in inputs:
        names[name] = next(n for i in range(1 << 20) if (n := f"x{i}") not in taken)
        taken.add(names[name])
    return names


def _outlined(draft: Draft, site: Region, rng: random.Random) -> onnx.FunctionProto:
    """A function of the region's nodes.

    Inside, values have their names from outside, or x0, x1, ... as in every other function, since
    each function has a scope of its own.
    """
    nodes, inputs = site.nodes(draft), [*site.inputs]
    if rng.random() < 0.5:
        names = _parameters(nodes, inputs)
        nodes = [kept_name(node, names) for node in nodes]
        inputs = [names[name] for name in inputs]
    return _declared(draft, nodes, inputs, site.outputs)


@models(FAMILY, known_regions)
def function(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> a call of a model-local function that consists of them: ONNX defines the call as
    these nodes, with its inputs in place of the parameters."""
    made = _outlined(draft, site, rng)
    site.replaced(draft, [_call(made, site.inputs, site.outputs)])


def _several(draft: Draft) -> list[Region]:
    return [r for r in known_regions(draft) if r.stop - r.start > 1]


@models(FAMILY, _several)
def nested_function(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> a function whose first or last nodes are a call of another function."""
    made = _outlined(draft, site, rng)
    cut = rng.randint(1, len(made.node) - 1)
    front = rng.random() < 0.5
    nodes = [*made.node]
    part, rest = (nodes[:cut], nodes[cut:]) if front else (nodes[cut:], nodes[:cut])
    own = [name for node in part for name in node.output if name]
    wanted = {*made.output, *(name for node in rest for name in reads(node))}
    outputs = [name for name in own if name in wanted] or own[:1]  # of a part that is dead
    inputs = [n for n in dict.fromkeys(n for node in part for n in reads(node)) if n not in own]
    inside = _declared(draft, part, inputs, outputs)
    call = _call(inside, inputs, outputs)
    nodes = [call, *rest] if front else [*rest, call]
    made = next(f for f in draft.model.functions if f.name == made.name)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del made.node[:]
    made.node.extend(copies)
    site.replaced(draft, [_call(made, site.inputs, site.outputs)])


@models(FAMILY, repeatable)
def function_called_twice(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> a function, called twice with the same inputs; some readers take the second call's
    results, which are the same."""
    made = _outlined(draft, site, rng)
    again = {name: draft.fresh("again") for name in site.outputs}
    calls = [_call(made, site.inputs, names) for names in (site.outputs, [*again.values()])]
    site.replaced(draft, calls)
    draft.learn()
    for name, other in again.items():
        behind = [i for i in draft.readers.get(name, ()) if i >= site.start + 2]
        if behind:
            draft.rename(name, other, rng.sample(behind, rng.randint(1, len(behind))))


def _twins(draft: Draft) -> list[tuple[int, int]]:
    """Pairs of nodes of the main graph that differ only in their inputs and outputs."""
    found = []
    earlier: dict[object, Any] = {}
    for i, node in enumerate(draft.graph.node):
        key = _kind(node)
        if not any(bodies(node)) and all(node.input) and all(node.output):
            found += [(j, i) for j in earlier.get(key, ())]
            earlier.setdefault(key, []).append(i)
    return found


def _kind(node: onnx.NodeProto) -> tuple[object, ...]:
    attributes = sorted(a.SerializeToString() for a in node.attribute)
    return node.op_type, node.domain, len(node.input), len(node.output), *attributes


@models(FAMILY, _twins)
def function_of_twins(draft: Draft, site: tuple[int, int], rng: random.Random) -> None:
    """Two nodes that differ in what they read alone -> two calls of one function; its parameters
    have no types, so that those of the calls may differ."""
    first, second = (draft.graph.node[i] for i in site)
    inputs = [f"x{i}" for i in range(len(first.input))]
    outputs = [f"y{i}" for i in range(len(first.output))]
    inside = protos.node(first.op_type, inputs, outputs)
    inside.domain = first.domain
    inside.attribute.extend(first.attribute)
    made = _declared(draft, [inside], inputs, outputs)
    for i, node in zip(site, (first, second)):
        draft.graph.node[i].CopyFrom(_call(made, [*node.input], [*node.output]))


def _attributed(draft: Draft) -> list[int]:
    nodes = enumerate(draft.graph.node)
    return [i for i, node in nodes if _simple(node) and node.domain in ("", "ai.onnx")]


_SIMPLE = (
    onnx.AttributeProto.INT,
    onnx.AttributeProto.FLOAT,
    onnx.AttributeProto.INTS,
    onnx.AttributeProto.FLOATS,
    onnx.AttributeProto.STRING,
)


def _simple(node: onnx.NodeProto) -> list[onnx.AttributeProto]:
    """Attributes that may become parameters."""
    return [a for a in node.attribute if a.type in _SIMPLE and not a.ref_attr_name]


@models(FAMILY, _attributed)
def function_with_attribute(draft: Draft, site: int, rng: random.Random) -> None:
    """A node with an attribute -> a call of a function that has it as a parameter, and refers to it
    by its name, or by another one."""
    node = draft.graph.node[site]
    chosen = rng.choice(_simple(node))
    parameter = chosen.name if rng.random() < 0.5 else "parameter"
    passed, inside = onnx.AttributeProto(), onnx.NodeProto()
    passed.CopyFrom(chosen)
    passed.name = parameter
    inside.CopyFrom(node)
    where = [a.name for a in inside.attribute].index(chosen.name)
    reference = onnx.AttributeProto(name=chosen.name, type=chosen.type, ref_attr_name=parameter)
    inside.attribute[where].CopyFrom(reference)
    span = region(draft, site, site + 1)
    made = _declared(draft, [inside], span.inputs, [n for n in node.output if n], [parameter])
    call = _call(made, span.inputs, [n for n in node.output if n])
    call.attribute.append(passed)
    draft.graph.node[site].CopyFrom(call)


@models(FAMILY, lambda draft: [0])
def unused_function(draft: Draft, site: int, rng: random.Random) -> None:
    """A function that nothing calls -> no difference. Its parameters have names of the graph."""
    names = [*draft.inputs, *draft.outputs, "x"]
    name = rng.choice(names)
    nodes = [protos.node(rng.choice(["Neg", "Identity", "Abs"]), [name], ["y"])]
    _declared(draft, nodes, [name], ["y"])


RULES = (
    function, nested_function, function_called_twice, function_of_twins, function_with_attribute,
    unused_function,
)  # fmt: skip
