"""Model-local functions: parts of the model that are called by name."""

from __future__ import annotations

import random
from collections.abc import Sequence

import onnx

from nnfuzz.materialize import protos
from nnfuzz.materialize.emit import rename_in_place
from nnfuzz.materialize.walk import bodies, reads
from nnfuzz.vary.rewrite.draft import Draft, Kind, Region, known_regions, models, names_in, region

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
) -> str:
    """Adds a function to the model and returns its name."""
    draft.needs_ir(IR_VERSION)
    if all(entry.domain != DOMAIN for entry in draft.model.opset_import):
        draft.model.opset_import.add(domain=DOMAIN, version=1)
    name = f"part_{len(draft.model.functions)}"
    imports = draft.model.opset_import
    draft.model.functions.append(
        onnx.FunctionProto(
            name=name, domain=DOMAIN, node=nodes, input=inputs, output=outputs,
            attribute=attributes, opset_import=imports,
        )
    )  # fmt: skip
    return name


def _call(function: str, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    return protos.node(f"{DOMAIN}.{function}", inputs, outputs)


def _outlined(
    draft: Draft, site: Region, rng: random.Random
) -> tuple[list[onnx.NodeProto], list[str]]:
    """The nodes of a region as those of a function, and the names of its parameters.

    Inside, values have their names from outside, or x0, x1, ... as in every other function, since
    each function has a scope of its own.
    """
    nodes, inputs = site.nodes(draft), [*site.inputs]
    if rng.random() < 0.5:
        taken = {name for node in nodes for name in (*node.output, *reads(node))}
        taken |= {name for node in nodes for body in bodies(node) for name in names_in(body)}
        fresh = (name for i in range(1 << 20) if (name := f"x{i}") not in taken)
        names = dict(zip(inputs, fresh))
        nodes, inputs = [rename_in_place(node, names) for node in nodes], [*names.values()]
    return nodes, inputs


@models(FAMILY, known_regions, kind=Kind.FORM)
def function(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> a call of a model-local function that consists of them: ONNX defines the call as
    these nodes, with its inputs in place of the parameters."""
    name = _declared(draft, *_outlined(draft, site, rng), site.outputs)
    site.replaced(draft, [_call(name, site.inputs, site.outputs)])


@models(FAMILY, lambda draft: [r for r in known_regions(draft) if r.stop - r.start > 1])
def nested_function(draft: Draft, site: Region, rng: random.Random) -> None:
    """Nodes -> a function whose first or last nodes are a call of another function."""
    nodes, parameters = _outlined(draft, site, rng)
    cut, front = rng.randint(1, len(nodes) - 1), rng.random() < 0.5
    part, rest = (nodes[:cut], nodes[cut:]) if front else (nodes[cut:], nodes[:cut])
    own = [name for node in part for name in node.output if name]
    wanted = {*site.outputs, *(name for node in rest for name in reads(node))}
    outputs = [name for name in own if name in wanted] or own[:1]  # of a part that is dead
    inputs = [n for n in dict.fromkeys(n for node in part for n in reads(node)) if n not in own]
    call = _call(_declared(draft, part, inputs, outputs), inputs, outputs)
    nodes = [call, *rest] if front else [*rest, call]
    name = _declared(draft, nodes, parameters, site.outputs)
    site.replaced(draft, [_call(name, site.inputs, site.outputs)])


_SIMPLE = (
    onnx.AttributeProto.INT,
    onnx.AttributeProto.FLOAT,
    onnx.AttributeProto.INTS,
    onnx.AttributeProto.FLOATS,
    onnx.AttributeProto.STRING,
)


def _simple(node: onnx.NodeProto) -> list[onnx.AttributeProto]:
    """Attributes that may become parameters."""
    own = node.attribute if node.domain in ("", "ai.onnx") else ()
    return [a for a in own if a.type in _SIMPLE and not a.ref_attr_name]


@models(FAMILY, lambda draft: [i for i, n in enumerate(draft.graph.node) if _simple(n)],
        kind=Kind.FORM)  # fmt: skip
def function_with_attribute(draft: Draft, site: int, rng: random.Random) -> None:
    """A node with an attribute -> a call of a function that has it as a parameter, and refers to it
    by its name, or by another one."""
    node, span = draft.graph.node[site], region(draft, site, site + 1)
    chosen = rng.choice(_simple(node))
    parameter = chosen.name if rng.random() < 0.5 else "parameter"
    passed, (inside,) = onnx.AttributeProto(), span.nodes(draft)
    passed.CopyFrom(chosen)
    passed.name = parameter
    where = [a.name for a in inside.attribute].index(chosen.name)
    reference = onnx.AttributeProto(name=chosen.name, type=chosen.type, ref_attr_name=parameter)
    inside.attribute[where].CopyFrom(reference)
    outputs = [name for name in node.output if name]
    call = _call(
        _declared(draft, [inside], span.inputs, outputs, [parameter]), span.inputs, outputs
    )
    call.attribute.append(passed)
    node.CopyFrom(call)


RULES = (function, nested_function, function_with_attribute)
