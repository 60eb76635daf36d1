"""Finds the attributes of ONNX's operators that no model sets to anything but the default.

A bug in an operator's mode that is never generated cannot be found. The lowerings of all operators
are searched, as direct emission writes them; an attribute that stays at its default is a problem,
unless the spec of that name declares the reason (`OpSpec.unset`).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import onnx

from nnfuzz.check.instances import SIZES, solved
from nnfuzz.check.runtimes import one_node
from nnfuzz.check.versions import legal_opsets
from nnfuzz.ir.opset_imports import OWN_DOMAINS
from nnfuzz.materialize.walk import graphs
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
            opset = model.opset_import[0].version
            for node in (node for graph in graphs(model.graph) for node in graph.node):
                if node.domain in OWN_DOMAINS:  # onnx has no schemas of others
                    defaults = _defaults(node.op_type, opset)
                    settable |= {(node.op_type, name) for name in defaults}
                    used |= {
                        (node.op_type, a.name)
                        for a in node.attribute
                        if a.name in defaults
                        and onnx.helper.get_attribute_value(a) != defaults[a.name]
                    }
    return used, settable


def lowerings(spec: type[OpSpec], rng: random.Random, draws: int) -> Iterator[onnx.ModelProto]:
    """Models of single instances, over signatures, ranks and legal opsets in turn."""
    lo, hi = spec.inputs[0].ranks
    kinds = list(itertools.product(spec.signatures(), range(lo, hi + 1)))
    rng.shuffle(kinds)
    draw = Draw(rng, SIZES)
    count = max(draws, min(2 * len(kinds), 4 * draws))
    for signature, rank in itertools.islice(itertools.cycle(kinds), count):
        legal = legal_opsets(spec, signature)
        if legal and (instance := solved(spec, signature, rank, draw)):
            yield one_node(instance, instance.op.type_transfer(*instance.types), rng.choice(legal))


@cache
def _defaults(operator: str, opset: int) -> dict[str, Any]:
    """The attributes of an operator but for graphs and types, with their default values."""
    kinds = onnx.defs.OpSchema.AttrType
    schema = onnx.defs.get_schema(operator, max_inclusive_version=opset)
    return {
        name: onnx.helper.get_attribute_value(a.default_value) if a.default_value.type else None
        for name, a in schema.attributes.items()
        if a.type not in (kinds.GRAPH, kinds.TYPE_PROTO)
    }
