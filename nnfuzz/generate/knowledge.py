"""Ranges of the values of a growing graph: insertions that leave no valid input are refused."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.families.elementwise import (
    Arithmetic,
    Branched,
    Broadcasting,
    Elementwise,
    value_at,
)
from nnfuzz.operators.families.index import Indexed
from nnfuzz.operators.families.shape import DataMovement
from nnfuzz.operators.operator import ANY_RANGE, OpSpec, Range

MOST_SPECIAL = 6
"""Special ranges kept per value; more of them cost time at every later node."""
EDGE = 1e-3
"""Share of a range near its ends that the input search does not reach."""
FEWEST, FEW = 2, 4
"""An operator that admits only some integers must leave FEWEST of them to choose from; where fewer
than FEW numbers are possible, each of them is expected to occur."""
FARTHEST = 1
"""Largest `remote` of an input for which the input search can meet an operator's demand."""
TOP = 2**63
"""uint64 from here on is rarely drawn: it is valid for modular operators only."""


@dataclass(slots=True, eq=False)
class ValueRange:
    """Bounds of every element of a value; `special`: ranges that hold some element for certain.

    It is never changed, like a TensorType.

    Those come from `OpSpec.certain`, a constant padding for instance, or are derived. One object
    stands for one value: operands that are the same object are equal, so x - x is known to be 0.
    whole: every element is a whole number; of integers it need not be said. fixed: no input of the
    graph changes the elements. away: no element is closer to 0. copied: some of them may be equal
    whatever the inputs are. remote: how many operators on the way from the nearest input make the
    elements depend on many others, or are hard to please themselves.
    """

    range: Range = ANY_RANGE
    special: tuple[Range, ...] = ()
    whole: bool = False
    fixed: bool = False
    away: float = 0.0
    copied: bool = False
    remote: int = 0

    @property
    def few(self) -> bool:
        """Whether so few integers are possible that every one of them must be expected to occur."""
        return self.whole and _numbers(*self.range) < FEW

    def over(self, range_: Range, special: tuple[Range, ...]) -> ValueRange:
        """A copy with another range and other special ranges."""
        return ValueRange(
            range_, special, self.whole, self.fixed, self.away, self.copied, self.remote
        )

    def same(self, other: ValueRange) -> bool:
        """Whether both hold the same information."""
        mine, its = (
            (k.range, k.special, k.whole, k.fixed, k.away, k.copied, k.remote)
            for k in (self, other)
        )
        return mine == its


def derive(
    op: OpSpec,
    types: Sequence[TensorType],
    inputs: Sequence[ValueRange],
    cut: Sequence[ValueRange] | None = None,
) -> Iterator[ValueRange] | None:
    """Knowledge of the outputs, as an endless iterator; None if no input gives finite results.

    cut: `input_ranges` of the inputs, where that is known already.
    """
    ranges, traits = _ranges(inputs), _traits(type(op))  # type: ignore[arg-type]
    if traits.selective and not op.feasible(*ranges):
        return None
    fixed = op.constant or _given(op, traits, input_ranges(op, inputs) if cut is None else cut)
    if not _chosen(op, types, inputs, fixed):
        return None
    if op.differing and any(known.copied or known.few for known in inputs):
        return None
    hard = traits.demanding and _hard(op, types, ranges)
    if hard and inputs[0].remote > FARTHEST:
        return None
    dtype = op.output_dtype(*types)
    bounds = _stored(dtype, _outcome(op, dtype, ranges, fixed))
    special = [_stored(dtype, r) for r in op.certain(*types)] if traits.certain else []
    moves = traits.indexed or (traits.movement and not op.mixes)  # type: ignore[attr-defined]
    if traits.movement:  # Some elements of each input come out.
        special += ranges
    if [k for k in inputs if k.special]:
        for variant in _variants(op, moves, inputs):
            if not op.feasible(*variant):
                return None
            carried = variant[0] if moves else _outcome(op, dtype, variant, fixed)
            special.append(_stored(dtype, carried))
    if fixed:  # Either end may be an element.
        special += [(end, end) for end in bounds]
    away = 0.0
    if moves and len(inputs) == 1:
        away = inputs[0].away
    elif traits.sized:
        away = op.magnitude(*ranges)
    whole, copied = _whole(op, types, inputs), fixed or _copied(op, traits, inputs)
    remote = _remote(op, traits, moves, inputs) + hard
    special_ = _narrow(special, bounds) if special else ()
    return _outputs(op, ranges, ValueRange(bounds, special_, whole, fixed, away, copied, remote))


@dataclass(frozen=True)
class _Traits:
    """Properties of all instances of an operator class, cached because computing them takes time.

    selective: some inputs are not feasible. demanding: some ranges of first inputs are demanded.
    certain: some output elements are known. sized: the magnitude of outputs may be known. reads:
    whether the elements of some inputs are indices.
    """

    movement: bool
    indexed: bool
    pointwise: bool
    elementwise: bool
    selective: bool
    demanding: bool
    certain: bool
    sized: bool
    reads: bool


@cache
def _traits(spec: type[OpSpec]) -> _Traits:
    movement, indexed = issubclass(spec, DataMovement), issubclass(spec, Indexed)
    elementwise = issubclass(spec, Elementwise)
    return _Traits(
        movement=movement,
        indexed=indexed,
        pointwise=elementwise and all(p.ranks[0] == 0 for p in spec.inputs),
        elementwise=elementwise,
        selective=spec.feasible is not OpSpec.feasible or spec.valid != (),
        demanding=spec.demanded is not OpSpec.demanded,
        certain=spec.certain is not OpSpec.certain,
        sized=spec.magnitude is not OpSpec.magnitude,
        reads=spec.reads_indices(),
    )


def _given(op: OpSpec, traits: _Traits, cut: Sequence[ValueRange]) -> bool:
    """Whether no input can be chosen: each is fixed, one of very few numbers, or an index.

    cut: the inputs as narrowed by what the operator admits.
    """
    for i, known in enumerate(cut):
        chosen = not (known.fixed or (known.whole and known.few))
        if chosen and not (traits.indexed and op.patterns(len(cut))[i].index):
            return False
    return True


def _narrow(special: Sequence[Range], bounds: Range) -> tuple[Range, ...]:
    """The special ranges that are narrower than the bounds of all elements."""
    lo, hi = bounds
    return tuple(r for r in dict.fromkeys(special) if r[0] > lo or r[1] < hi)[:MOST_SPECIAL]


def _outputs(op: OpSpec, ranges: Sequence[Range], first: ValueRange) -> Iterator[ValueRange]:
    """One `ValueRange` per output; distinct objects, since they are distinct values."""
    yield first
    for bounds, *special in op.further(*ranges):
        narrow = _narrow(special, bounds)
        yield ValueRange(bounds, narrow, fixed=first.fixed, remote=first.remote)
    while True:
        yield first.over(first.range, first.special)


def _hard(op: OpSpec, types: Sequence[TensorType], ranges: Sequence[Range]) -> bool:
    """Whether the operator demands a range of its first input that the input may leave."""
    wanted = op.demanded(*ranges) if ranges and types[0].dtype.is_float else None
    return wanted is not None and not (wanted[0] <= ranges[0][0] <= ranges[0][1] <= wanted[1])


def _remote(op: OpSpec, traits: _Traits, moves: bool, inputs: Sequence[ValueRange]) -> int:
    """`ValueRange.remote` of the outputs, the operator itself not counted as a demanding one."""
    read = [k.remote for k in inputs]
    if traits.reads:
        patterns = op.patterns(len(inputs))
        read = [remote for remote, p in zip(read, patterns) if not p.index] or [0]
    if moves:
        return max(read)
    if not traits.pointwise:
        return max(read) + 1
    if isinstance(op, Arithmetic):  # Any term or factor moves the result.
        return min(read)
    bent = not (op.monotone or isinstance(op, Broadcasting))
    return max(read) + (op.whole == "always" or bent)


def _copied(op: OpSpec, traits: _Traits, inputs: Sequence[ValueRange]) -> bool:
    """Whether output elements may be copies of each other, by this operator or an earlier one."""
    copied = [known.copied for known in inputs]
    return op.copies or (True in copied if traits.movement else False not in copied)


def _whole(op: OpSpec, types: Sequence[TensorType], inputs: Sequence[ValueRange]) -> bool:
    """Whether every element of the first output is known to be a whole number."""
    if op.whole != "kept":
        return op.whole == "always"
    for known, type_ in zip(inputs, types):
        if type_.dtype.is_float and not known.whole:
            return False
    return True


def _chosen(
    op: OpSpec, types: Sequence[TensorType], inputs: Sequence[ValueRange], fixed: bool
) -> bool:
    """Whether the inputs can get valid values: not if fixed, or if hardly any are valid."""
    if fixed and isinstance(op, Branched) and not op.constant:
        return all(known.range[0] == known.range[1] for known in inputs)
    for known, type_, bounds in zip(inputs, types, op.valid):
        if bounds is None:
            continue
        (lo, hi), (least, most) = known.range, bounds
        if known.away and known.away >= max(-max(lo, least), min(hi, most)):
            return False
        whole = known.whole or not type_.dtype.is_float
        inside = least <= lo <= hi <= most
        if whole and not inside and _numbers(max(lo, least), min(hi, most)) < FEWEST:
            return False
    if not op.modular:
        for known, type_ in zip(inputs, types):
            if type_.dtype is DType.UINT64 and known.range[0] >= TOP:
                return False
    return True


def _numbers(lo: float, hi: float) -> float:
    """Number of integers in `[lo, hi]`."""
    return math.floor(hi) - math.ceil(lo) + 1 if math.isfinite(hi - lo) else math.inf


def input_ranges(op: OpSpec, inputs: Sequence[ValueRange]) -> Sequence[ValueRange]:
    """Ranges of the inputs of `op`, cut to the values that it admits; `inputs` if it admits all."""
    if not op.valid:
        return inputs
    result = list(inputs)
    for i, (known, bounds) in enumerate(zip(inputs, op.valid)):
        if bounds is not None:
            (lo, hi), (least, most) = known.range, bounds
            if lo < least or hi > most:
                cut = (max(lo, least), min(hi, most))
                result[i] = known.over(cut, known.special)
    return result


def unread(type_: TensorType) -> ValueRange:
    """Range of a placeholder by its dtype; bounds of integers are of type int."""
    return ValueRange(type_.dtype.limits if not type_.dtype.is_float else ANY_RANGE)


def _stored(dtype: DType, range_: Range) -> Range:
    """The range of numbers after they are stored in a dtype, where integers wrap around.

    Bounds of floats are of type float. Infinite ones of integers are where these end.
    """
    if dtype.is_float:
        return float(range_[0]), float(range_[1])
    lo, hi = dtype.limits
    range_ = lo if range_[0] == -math.inf else range_[0], hi if range_[1] == math.inf else range_[1]
    if lo <= range_[0] and range_[1] <= hi:
        return range_
    if all(isinstance(end, int) for end in range_):
        span = 2 * TOP if dtype is DType.UINT64 else hi - lo + 1
        turns = (range_[0] - lo) // span
        if turns == (range_[1] - lo) // span:
            return range_[0] - turns * span, range_[1] - turns * span
    return lo, hi


def _outcome(op: OpSpec, dtype: DType, ranges: Sequence[Range], fixed: bool) -> Range:
    """The output's bounds; exact where every input is one number."""
    traits = _traits(type(op))  # type: ignore[arg-type]
    if traits.pointwise and False not in [lo == hi for lo, hi in ranges]:
        exact = _evaluated(op, [float(lo) for lo, _ in ranges])
        if exact is not None:
            return exact, exact
    lo, hi = op.value_range(*ranges)
    smooth = dtype.is_float and traits.elementwise and not fixed
    if smooth and math.isfinite(hi - lo) and not _finite(ranges):
        # Ends that are reached at infinity or at isolated points only are not found by search.
        short = EDGE * (hi - lo)
        return lo + short, hi - short
    return lo, hi


def _finite(ranges: Sequence[Range]) -> bool:
    return all(math.isfinite(end) for range_ in ranges for end in range_)


def _evaluated(op: OpSpec, numbers: Sequence[float]) -> float | None:
    """The operator applied to scalars; None where that is undefined or not finite."""
    try:
        value = value_at(op, *numbers)
    except (RuntimeError, TypeError, IndexError):  # Not for float64, or not of rank 1.
        return None
    return value if math.isfinite(value) else None


def _ranges(inputs: Sequence[ValueRange]) -> list[Range]:
    """One tuple per distinct input, so that equal operands are identical objects."""
    match inputs:
        case [one]:
            return [one.range]
        case [one, two]:
            first = (one.range[0], one.range[1])
            return [first, first if one is two else (two.range[0], two.range[1])]
    own = {id(known): (known.range[0], known.range[1]) for known in inputs}
    return [own[id(known)] for known in inputs]


def _variants(op: OpSpec, moves: bool, inputs: Sequence[ValueRange]) -> Iterator[list[Range]]:
    """The input ranges with one input, or all of them, replaced by a special element.

    Data movement keeps elements separate. Other operators may mix a special element with others (as
    sums do), indices may leave it out, and special elements of several inputs need not meet. This
    is ignored, so slightly too much is refused.
    """
    if len(inputs) > 1 and all(known.special for known in inputs) and not moves:
        yield _ranges([ValueRange(k.special[0]) for k in inputs])
    read = [k for k, pattern in zip(inputs, op.patterns(len(inputs))) if not pattern.index]
    for chosen in dict.fromkeys(read):
        for special in chosen.special:
            ranges = _ranges(inputs)
            one = (special[0], special[1])
            yield [one if moves or k is chosen else r for k, r in zip(inputs, ranges)]
