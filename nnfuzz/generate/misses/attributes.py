"""Near misses in the attributes that a pattern expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nnfuzz.generate.misses.call import Call, Inserting, Kind, Outputs, like
from nnfuzz.ir.expr import IntExpr
from nnfuzz.operators.attributes import Choice

NEARBY = (1.0001, 0.999, 0.5, 2.0, -1.0, 0.0)
"""Factors by which a number is changed: slightly, clearly, in sign, to zero."""
AXES = ("axis", "axes")


def attribute_nearby(m: Inserting, call: Call) -> Outputs:
    """A number is changed a little or clearly; in a tuple, one number is, or two are swapped."""
    names = [name for name in call.attributes if _options(m, call, name) is None]
    if not names:
        return None
    name = m.draw.choice(names)
    near = _near(m, call.attributes[name])
    return None if near is None else m.insert(call.with_attribute(name, near))


def attribute_redrawn(m: Inserting, call: Call) -> Outputs:
    """An attribute gets another one of its options, or is drawn again."""
    if not call.attributes:
        return None
    name = m.draw.choice(list(call.attributes))
    others = [v for v in _options(m, call, name) or () if v != call.attributes[name]]
    if others:
        return m.insert(call.with_attribute(name, m.draw.choice(others)))
    rest = {n: v for n, v in call.attributes.items() if n != name}
    outputs = m.insert(replace(call, attributes=rest))
    node = m.growth.graph.nodes[-1]
    same = outputs and node.op.attributes[name] == call.attributes[name]
    return None if same else outputs


def axis_respelled(m: Inserting, call: Call) -> Outputs:
    """An axis is counted from the other end; the meaning is the same."""
    given, first = [name for name in AXES if name in call.attributes], like(m, call)
    if not given or first is None:
        return None
    value = call.attributes[given[0]]
    if isinstance(value, int):
        return m.insert(call.with_attribute(given[0], _respelled(value, first.rank)))
    if isinstance(value, tuple) and all(isinstance(axis, int) for axis in value):
        axes = tuple(_respelled(axis, first.rank) for axis in value)
        return m.insert(call.with_attribute(given[0], axes)) if value else None
    return None


def _respelled(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis - rank


def _options(m: Inserting, call: Call, name: str) -> Sequence[Any] | None:
    """The values that an attribute can have, if its declaration lists them."""
    declared = call.spec.declared[name]
    if not isinstance(declared, Choice) or isinstance(call.attributes[name], tuple):
        return None
    return declared.options if isinstance(declared.options, tuple) else None


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


KINDS: Sequence[Kind] = (attribute_nearby, attribute_redrawn, axis_respelled)
