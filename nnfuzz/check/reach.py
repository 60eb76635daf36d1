"""Finds the attributes of ONNX's operators that no model sets to anything but the default.

A bug in an operator's mode that is never generated cannot be found. The lowerings of all operators
are searched, as direct emission writes them; an attribute that stays at its default is a problem,
unless the spec of that name declares the reason (`OpSpec.unset`).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator

import onnx

from nnfuzz.check.instances import SIZES, SignatureTypes, solved
from nnfuzz.check.reference_implementations import one_node
from nnfuzz.check.versions import legal_opsets
from nnfuzz.ir.opset_imports import OWN_DOMAINS
from nnfuzz.materialize.walk import bodies
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import OpSpec

DRAWS = 60
"""Instances of an operator; up to four times as many if it has many signatures."""
AGAIN = 4
"""Times as many instances are drawn of an operator before one of its attributes is called unset."""
Attribute = tuple[str, str]
"""The name of an ONNX operator, and of an attribute of it."""


def reach_problems(
    specs: Iterable[type[OpSpec]], seed: int = 0, draws: int = DRAWS
) -> Iterator[str]:
    """One line for each attribute that is never set and has no declared reason, or is set in spite
    of one.

    specs: all operators, since one may set what another does not.
    """
    specs = list(specs)
    used, settable = attributes_reached(specs, seed, draws)
    reasons = {(spec.name, name): why for spec in specs for name, why in spec.unset.items()}
    rare = {operator for operator, _ in settable - used - reasons.keys()}
    again = [spec for spec in specs if spec.name in rare]
    used |= attributes_reached(again, seed + 1, AGAIN * draws)[0]
    for operator, name in sorted(settable - used - reasons.keys()):
        yield f"{operator}: attribute {name} is never set to anything but its default"
    for operator, name in sorted(reasons.keys() & used):
        yield f"{operator}: attribute {name} is set, and is declared never to be (`unset`)"


def attributes_reached(
    specs: Iterable[type[OpSpec]], seed: int = 0, draws: int = DRAWS
) -> tuple[set[Attribute], set[Attribute]]:
    """The attributes that some lowering sets to another value than the default; all attributes."""
    used: set[Attribute] = set()
    settable: set[Attribute] = set()
    for spec in specs:
        for model in lowerings(spec, random.Random(f"{seed}:{spec.name}"), draws):
            for node in _nodes(model.graph):
                _add(node, model.opset_import[0].version, used, settable)
    return used, settable


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


def _add(node: onnx.NodeProto, opset: int, used: set[Attribute], settable: set[Attribute]) -> None:
    if node.domain not in OWN_DOMAINS:  # onnx has no schemas of others
        return
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
            used.add((node.op_type, name))
