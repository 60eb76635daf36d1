"""Mutations of a motif in one place, which make it similar to a pattern that optimisers look for.

Each mutation inserts another form of the operator that the motif requests (nnfuzz.generate.motifs).
It returns the outputs, or None if there is nothing to change or it does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.growth import Growth
from nnfuzz.ir.expr import IntExpr
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Attribute, Choice
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.elementwise import Unary
from nnfuzz.operators.families.shape import DataMovement
from nnfuzz.operators.motif import Operand
from nnfuzz.operators.operator import OpSpec

NEARBY = (1.0001, 0.999, 0.5, 2.0, -1.0, 0.0)
"""Factors by which a constant is changed: just beside, clearly beside, the sign, zero."""
TRIES = 4
"""Operators drawn until one fits as an extra node."""


@dataclass(frozen=True)
class Call:
    """An operator that a motif requests."""

    spec: type[OpSpec]
    operands: tuple[Operand, ...]
    attributes: Mapping[str, Any]

    def with_operand(self, position: int, operand: Operand) -> Call:
        """The same call with another operand at a position."""
        before, behind = self.operands[:position], self.operands[position + 1 :]
        return replace(self, operands=(*before, operand, *behind))


class Inserting(Protocol):
    """What mutations need of the writer of a motif (nnfuzz.generate.motifs.MotifWriter)."""

    catalog: Catalog
    growth: Growth
    draw: Draw

    def type(self, name: str) -> TensorType: ...

    def insert(self, call: Call) -> tuple[str, ...] | None: ...


def other_constant(m: Inserting, call: Call) -> tuple[str, ...] | None:
    """One constant operand becomes another number nearby."""
    patterns = call.spec.patterns(len(call.operands))
    pairs = zip(call.operands, patterns)
    places = [i for i, (o, p) in enumerate(pairs) if isinstance(o, int | float) and not p.index]
    if not places:
        return None
    place = m.draw.choice(places)
    value: Any = call.operands[place]
    near = [value - 1, value + 1]
    if isinstance(value, float):
        near += [value * f for f in NEARBY]
    return m.insert(call.with_operand(place, m.draw.choice([v for v in near if v != value])))


def other_attribute(m: Inserting, call: Call) -> tuple[str, ...] | None:
    """One of the given attributes takes a nearby value, or is drawn anew."""
    if not call.attributes:
        return None
    name = m.draw.choice(list(call.attributes))
    others = {n: v for n, v in call.attributes.items() if n != name}
    if m.draw.chance(0.5) and not _enumerated(call.spec.declared[name]):
        near = _near(m, call.attributes[name])
        others |= {} if near is None else {name: near}
    return m.insert(replace(call, attributes=others))


def _enumerated(declared: Attribute) -> bool:
    """Whether there are no values but the declared ones."""
    return not isinstance(declared, Choice) or declared.options is not None


def _near(m: Inserting, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | IntExpr):
        return value + m.draw.choice((-1, 1))
    if isinstance(value, float):
        return value * m.draw.choice(NEARBY)
    if isinstance(value, tuple) and value:
        i, j = (m.draw.integer(0, len(value) - 1) for _ in range(2))
        swapped = [value[j] if k == i else value[i] if k == j else v for k, v in enumerate(value)]
        return tuple(swapped) if i != j else (*value[:i], _near(m, value[i]), *value[i + 1 :])
    return None


def swapped(m: Inserting, call: Call) -> tuple[str, ...] | None:
    """The first two operands change places."""
    if len(call.operands) < 2 or call.operands[0] == call.operands[1]:
        return None
    first, second, *rest = call.operands
    return m.insert(replace(call, operands=(second, first, *rest)))


def sibling(m: Inserting, call: Call) -> tuple[str, ...] | None:
    """Another operator of the same family takes the place; not of data movement, whose
    shapes would not fit."""
    bases = call.spec.__bases__
    if issubclass(call.spec, DataMovement) or bases == (OpSpec,):
        return None
    family = [s for s in m.catalog.signatures if s.__bases__ == bases and s is not call.spec]
    if not family:
        return None
    spec = m.draw.choice(family)
    kept = {n: v for n, v in call.attributes.items() if n in spec.declared}
    return m.insert(replace(call, spec=spec, attributes=kept))


def detour(m: Inserting, call: Call) -> tuple[str, ...] | None:
    """A unary node is put behind the operator; the rest of the motif reads that."""
    outputs = m.insert(call)
    return outputs and (*(_unary(m, call, outputs[0]) or outputs[:1]), *outputs[1:])


def other_reader(m: Inserting, call: Call) -> tuple[str, ...] | None:
    """Gives the value a second reader: another node, or an output of the model."""
    outputs = m.insert(call)
    if outputs and (m.draw.chance(0.5) or not _unary(m, call, outputs[0])):
        m.growth.exposed.add(outputs[0])
    return outputs


def _unary(m: Inserting, call: Call, name: str) -> tuple[str, ...] | None:
    for _ in range(TRIES):
        spec = m.catalog.pick(m.draw)
        if issubclass(spec, Unary):
            outputs = m.insert(replace(call, spec=spec, operands=(name,), attributes={}))
            if outputs and m.type(outputs[0]).dtype is m.type(name).dtype:
                return outputs
    return None


MUTATIONS: Sequence[Callable[[Inserting, Call], tuple[str, ...] | None]] = (
    other_constant,
    other_attribute,
    swapped,
    sibling,
    detour,
    other_reader,
)
