"""Which attributes of ONNX's operators no model ever sets to anything but their default.

What generation never does cannot be found. The operators' own lowerings are looked at, as direct
emission writes them; an attribute that stays at its default has a reason beside an operator of its
name (`OpSpec.unset`), or is a problem.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator

import onnx

from nnfuzz.check.instances import SIZES, SignatureTypes, solved
from nnfuzz.check.legality import legal_opsets
from nnfuzz.check.reference_implementations import one_node
from nnfuzz.materialize.walk import bodies
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import OpSpec

DRAWS = 60
"""Instances of an operator, up to four times as many where it has many signatures: an attribute
that one in 20 sets is missed once in 20 times."""
Attribute = tuple[str, str]
"""The name of an ONNX operator, and of an attribute of it."""


def reach_problems(
    specs: Iterable[type[OpSpec]], seed: int = 0, draws: int = DRAWS
) -> Iterator[str]:
    """A line for each attribute that is never set without a reason, or set in spite of one.

    Meant for all operators together: one may set what another leaves alone.
    """
    specs = list(specs)
    seen, settable = attributes_reached(specs, seed, draws)
    reasons = {(spec.name, name): why for spec in specs for name, why in spec.unset.items()}
    for operator, name in sorted(settable - seen - reasons.keys()):
        yield f"{operator}: attribute {name} is never set to anything but its default"
    for operator, name in sorted(reasons.keys() & seen):
        yield f"{operator}: attribute {name} is set, and is declared never to be (`unset`)"


def attributes_reached(
    specs: Iterable[type[OpSpec]], seed: int = 0, draws: int = DRAWS
) -> tuple[set[Attribute], set[Attribute]]:
    """The attributes that lowerings set to something else than the default; all that they could."""
    seen: set[Attribute] = set()
    settable: set[Attribute] = set()
    for spec in specs:
        for model in lowerings(spec, random.Random(f"{seed}:{spec.name}"), draws):
            for node in _nodes(model.graph):
                _take(node, model.opset_import[0].version, seen, settable)
    return seen, settable


def lowerings(spec: type[OpSpec], rng: random.Random, draws: int) -> Iterator[onnx.ModelProto]:
    """Models of single instances, over signatures, ranks and legal opsets in turn."""
    lo, hi = spec.inputs[0].ranks
    places = list(itertools.product(spec.signatures(), range(lo, hi + 1)))
    rng.shuffle(places)
    draw = Draw(rng, SIZES)
    count = max(draws, min(2 * len(places), 4 * draws))
    for signature, rank in itertools.islice(itertools.cycle(places), count):
        model = _lowering(spec, signature, rank, draw, rng)
        if model is not None:
            yield model


def _lowering(
    spec: type[OpSpec], signature: SignatureTypes, rank: int, draw: Draw, rng: random.Random
) -> onnx.ModelProto | None:
    legal = legal_opsets(spec, signature)
    instance = solved(spec, signature, rank, draw) if legal else None
    if instance is None:
        return None
    return one_node(instance, instance.op.type_transfer(*instance.types), rng.choice(legal))


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for body in bodies(node):
            yield from _nodes(body)


def _take(node: onnx.NodeProto, opset: int, seen: set[Attribute], settable: set[Attribute]) -> None:
    schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=opset)
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    for name, declared in schema.attributes.items():
        if declared.type in (
            onnx.defs.OpSchema.AttrType.GRAPH,
            onnx.defs.OpSchema.AttrType.TYPE_PROTO,
        ):
            continue
        settable.add((node.op_type, name))
        default = declared.default_value
        plain = onnx.helper.get_attribute_value(default) if default.type else None
        if name in given and given[name] != plain:
            seen.add((node.op_type, name))
