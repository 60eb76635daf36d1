"""Near misses in the constants of a pattern: other numbers, and other ways to write them."""

from __future__ import annotations

from collections.abc import Sequence

from nnfuzz.generate.misses.attributes import NEARBY
from nnfuzz.generate.misses.call import (
    Call,
    Inserting,
    Kind,
    Outputs,
    fresh_input,
    inserted,
    like,
    rewired,
)
from nnfuzz.ir.types import TensorType


def constant_nearby(m: Inserting, call: Call) -> Outputs:
    """A number is changed a little or clearly."""
    if (place := _place(m, call)) is None:
        return None
    value = _number(call, place)
    near = [value - 1, value + 1]
    if isinstance(value, float):
        near += [value * factor for factor in NEARBY]
    return rewired(m, call, place, m.draw.choice([v for v in near if v != value]))


def constant_quotient(m: Inserting, call: Call) -> Outputs:
    """A number becomes the quotient of two constants."""
    return _computed(m, call, "Div", 2, 2)


def constant_negated(m: Inserting, call: Call) -> Outputs:
    """A number becomes the negative of a constant."""
    return _computed(m, call, "Neg", -1)


def constant_input(m: Inserting, call: Call) -> Outputs:
    """A number becomes an input of the model."""
    place, type_ = _place(m, call), _type(m, call)
    return rewired(m, call, place, fresh_input(m, type_)) if place is not None and type_ else None


def constant_spread(m: Inserting, call: Call) -> Outputs:
    """A number becomes a tensor, as large as the other operand, that is filled with it."""
    return _filled(m, call, 1.0)


def constant_uneven(m: Inserting, call: Call) -> Outputs:
    """A number becomes a tensor of different numbers."""
    return _filled(m, call, 1.5)


def constant_reused(m: Inserting, call: Call) -> Outputs:
    """A number or weight is replaced by the constant of an earlier operator of the motif."""
    places, binding = call.places((int, float, TensorType)), m.binding(call)
    if not places or binding is None:
        return None
    place = m.draw.choice(places)
    dtype = binding[call.spec.patterns(len(call.operands))[place].var]
    there = [name for name in m.constants if name in m.growth.graph.values]
    fitting = [name for name in there if m.type(name).dtype is dtype]
    return rewired(m, call, place, m.draw.choice(fitting)) if fitting else None


def _place(m: Inserting, call: Call) -> int | None:
    """The position of an operand that is a number; None if there is none."""
    places = call.places((int, float))
    return m.draw.choice(places) if places else None


def _number(call: Call, place: int) -> float:
    value = call.operands[place]
    assert isinstance(value, int | float)
    return value


def _type(m: Inserting, call: Call, shape: tuple[int, ...] = ()) -> TensorType | None:
    """The type of a constant of the call; None if the other operands do not imply its dtype."""
    binding, places = m.binding(call), call.places((int, float))
    if binding is None or not places:
        return None
    pattern = call.spec.patterns(len(call.operands))[places[0]]
    return TensorType(binding[pattern.var], shape or (1,) * pattern.ranks[0])


def _computed(m: Inserting, call: Call, operator: str, *factors: int) -> Outputs:
    """A number becomes the result of an operator on one or two constants."""
    place, type_ = _place(m, call), _type(m, call)
    if place is None or type_ is None:
        return None
    numbers = _number(call, place) * factors[0], *factors[1:]
    return rewired(m, call, place, inserted(m, operator, *(m.shared(type_, n) for n in numbers)))


def _filled(m: Inserting, call: Call, factor: float) -> Outputs:
    """A number becomes a tensor of values between the number and `factor` times the number."""
    place, first = _place(m, call), like(m, call)
    type_ = first and _type(m, call, first.shape)  # type: ignore[arg-type]
    if place is None or type_ is None or (factor != 1.0 and not type_.dtype.is_float):
        return None
    ends = sorted({_number(call, place), _number(call, place) * factor})
    if factor != 1.0 and len(ends) == 1:
        return None
    return rewired(m, call, place, m.shared(type_, *ends))


KINDS: Sequence[Kind] = (
    constant_nearby,
    constant_quotient,
    constant_negated,
    constant_input,
    constant_spread,
    constant_uneven,
    constant_reused,
)
