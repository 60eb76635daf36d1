"""What is known about the numbers of a growing graph, so that no valid input is ruled out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnfuzz.ir.types import TensorType
from nnfuzz.spec.families.elementwise import Elementwise
from nnfuzz.spec.families.norm import AlongAxis
from nnfuzz.spec.families.shape import Moving
from nnfuzz.spec.families.sums import Summing
from nnfuzz.spec.operator import ANY_RANGE, OpSpec, Range

MOST_SPECIAL = 3


@dataclass(frozen=True, eq=False)
class Known:
    """Bounds of every element of a value; `special`: ranges that hold some element for certain.

    A constant padding, for instance, is special. One object stands for one value: operands that
    are the same object are equal, which is how x - x is known to be 0.
    """

    range: Range = ANY_RANGE
    special: tuple[Range, ...] = ()


def derive(op: OpSpec, types: Sequence[TensorType], inputs: Sequence[Known]) -> Known | None:
    """What is known about the outputs; None if no input values give a finite result."""
    ranges = _ranges(inputs)
    if not op.feasible(*ranges):
        return None
    whole = op.value_range(*ranges)
    special = [(c, c) for c in op.constants(*types)]
    keeps = _keeps_elements(op)
    for variant in _variants(inputs):
        if not keeps:
            break
        if not op.feasible(*variant):
            return None
        special.append(op.value_range(*variant))
    narrow = (r for r in dict.fromkeys(special) if r[0] > whole[0] or r[1] < whole[1])
    return Known(whole, tuple(narrow)[:MOST_SPECIAL])


def narrowed(op: OpSpec, inputs: Sequence[Known]) -> list[Known]:
    """The inputs once `op` reads them: bounds cut to the values the operator admits."""
    result = list(inputs)
    for i, (known, bounds) in enumerate(zip(inputs, op.valid)):
        if bounds is not None:
            (lo, hi), (least, most) = known.range, bounds
            if lo < least or hi > most:
                cut = (max(lo, least), min(hi, most))
                result[i] = Known(cut, known.special)
    return result


def _keeps_elements(op: OpSpec) -> bool:
    """Whether a special element of an input reaches some element of the output by itself."""
    if isinstance(op, (AlongAxis, Summing)):
        return False
    return isinstance(op, (Elementwise, Moving))


def _ranges(inputs: Sequence[Known]) -> list[Range]:
    """One tuple per distinct input, so that equal operands are identical objects."""
    own = {id(known): (known.range[0], known.range[1]) for known in inputs}
    return [own[id(known)] for known in inputs]


def _variants(inputs: Sequence[Known]) -> Iterator[list[Range]]:
    """The input ranges with one input replaced by a special element of it."""
    for chosen in dict.fromkeys(inputs):
        for special in chosen.special:
            ranges = _ranges(inputs)
            one = (special[0], special[1])
            yield [one if known is chosen else r for known, r in zip(inputs, ranges)]
