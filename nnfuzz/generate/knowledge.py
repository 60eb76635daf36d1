"""What is known about the numbers of a growing graph, so that no valid input is ruled out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.spec.families.elementwise import Elementwise
from nnfuzz.spec.families.shape import Moving
from nnfuzz.spec.operator import ANY_RANGE, OpSpec, Range

MOST_SPECIAL = 6
EDGE = 1e-3


@dataclass(frozen=True, eq=False)
class Known:
    """Bounds of every element of a value; `special`: ranges that hold some element for certain.

    Those come from `OpSpec.certain`, a constant padding for instance, or are derived. One object
    stands for one value: operands that are the same object are equal, so x - x is known to be 0.
    """

    range: Range = ANY_RANGE
    special: tuple[Range, ...] = ()


def derive(op: OpSpec, types: Sequence[TensorType], inputs: Sequence[Known]) -> Known | None:
    """What is known about the outputs; None if no input values give a finite result."""
    ranges = _ranges(inputs)
    if not op.feasible(*ranges):
        return None
    dtype = op.output_dtype(*types)
    whole = _stored(dtype, _outcome(op, dtype, ranges))
    special = [_stored(dtype, r) for r in op.certain(*types)]
    if isinstance(op, Moving):  # Some elements of each input come out.
        special += ranges
    for variant in _variants(op, inputs):
        if not op.feasible(*variant):
            return None
        special.append(_stored(dtype, _outcome(op, dtype, variant)))
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


def unread(type_: TensorType) -> Known:
    """What is known of a placeholder. The bounds of integers are of type int."""
    return Known(type_.dtype.limits if not type_.dtype.is_float else ANY_RANGE)


def _stored(dtype: DType, range_: Range) -> Range:
    """Bounds of what is left of a number in a dtype: integers wrap around.

    Bounds of floats are of type float.
    """
    if dtype.is_float:
        return float(range_[0]), float(range_[1])
    lo, hi = dtype.limits
    return range_ if lo <= range_[0] and range_[1] <= hi else (lo, hi)


def _outcome(op: OpSpec, dtype: DType, ranges: Sequence[Range]) -> Range:
    """The output's bounds; exact where every input is one number."""
    if isinstance(op, Elementwise) and all(lo == hi for lo, hi in ranges):
        numbers = tuple(float(lo) for lo, _ in ranges)
        exact = _evaluated(type(op), tuple(op.attributes.items()), numbers)
        if exact is not None:
            return exact, exact
    lo, hi = op.value_range(*ranges)
    approached = math.isfinite(hi - lo) and not _finite(ranges)
    if approached and dtype.is_float and isinstance(op, Elementwise):
        # Ends that are reached at infinity or at isolated points only are not found by search.
        short = EDGE * (hi - lo)
        return lo + short, hi - short
    return lo, hi


def _finite(ranges: Sequence[Range]) -> bool:
    return all(math.isfinite(end) for range_ in ranges for end in range_)


@lru_cache(maxsize=1 << 14)
def _evaluated(
    spec: type[OpSpec], attributes: tuple[tuple[str, Any], ...], numbers: tuple[float, ...]
) -> float | None:
    """The operator of single numbers; kept, for zeros and ones come up in graph after graph."""
    import torch

    try:
        op = spec(**dict(attributes))
        result = op.torch(*[torch.tensor([x], dtype=torch.float64) for x in numbers])
        value = float(result)  # type: ignore[arg-type]
    except (RuntimeError, TypeError, IndexError):  # Not for float64, or not of rank 1.
        return None
    return value if math.isfinite(value) else None


def _ranges(inputs: Sequence[Known]) -> list[Range]:
    """One tuple per distinct input, so that equal operands are identical objects."""
    own = {id(known): (known.range[0], known.range[1]) for known in inputs}
    return [own[id(known)] for known in inputs]


def _variants(op: OpSpec, inputs: Sequence[Known]) -> Iterator[list[Range]]:
    """The input ranges with one input, or all of them, replaced by a special element.

    Data movement carries elements along unmixed. Other operators may mix a special element with
    usual ones (sums do), and special elements of several inputs need not meet; that is ignored,
    which refuses a little too much.
    """
    moves = isinstance(op, Moving)
    if len(inputs) > 1 and all(known.special for known in inputs) and not moves:
        yield _ranges([Known(k.special[0]) for k in inputs])
    for chosen in dict.fromkeys(inputs):
        for special in chosen.special:
            ranges = _ranges(inputs)
            one = (special[0], special[1])
            yield [one if moves or k is chosen else r for k, r in zip(inputs, ranges)]
