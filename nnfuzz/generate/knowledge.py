"""Ranges of the values of a growing graph, so that insertions without valid inputs are refused."""

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
"""Special ranges kept per value; each of them costs time at every later node."""
EDGE = 1e-3
"""Share of a range, at its ends, that the input search does not reach."""
FEWEST, FEW = 2, 4
"""An operator that is valid for some integers only is refused if fewer than FEWEST of an input's
possible integers are valid. If an input has fewer than FEW possible integers, each of them is
expected to occur."""
FARTHEST = 1
"""Largest `remote` of an input at which the input search can satisfy an operator's `demanded`."""
TOP = 2**63
"""Unsigned integers from here on are rarely drawn: only modular operators admit them."""


@dataclass(slots=True, eq=False)
class ValueRange:
    """Bounds of every element of a value, and further facts. Instances never change.

    special: ranges that certainly hold an element, by `OpSpec.certain` (the 0 of padding) or
    derived from such. Operands that are the same object are known to be equal, so x - x is known to
    be 0. whole: every element is a whole number; not set for integers. fixed: the elements do not
    depend on the graph's inputs. away: lower bound of the elements' absolute values. copied: some
    elements may be equal for all inputs. remote: number of operators between the nearest input and
    this value that mix many elements, or have a narrow valid range.
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
        """Whether so few integers are possible that each of them must be expected to occur."""
        return self.whole and _numbers(*self.range) < FEW

    def over(self, range_: Range, special: tuple[Range, ...]) -> ValueRange:
        """A copy with another range and other special ranges."""
        return ValueRange(
            range_, special, self.whole, self.fixed, self.away, self.copied, self.remote
        )

    def same(self, other: ValueRange) -> bool:
        """Whether both hold the same facts."""
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
    """The ranges of the outputs, as an endless iterator; None if no input gives finite results.

    cut: `input_ranges` of the inputs, if already known.
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
    if traits.movement:  # Some elements of each input are in the output.
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

    movement, indexed, pointwise, elementwise: whether the class is of that kind. selective: not all
    inputs are feasible. demanding, certain, sized: whether it defines `demanded`, `certain`,
    `magnitude`. reads: some inputs hold indices.
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
    """Whether no input can be chosen freely: each is fixed, has very few values, or is an index.

    cut: ranges of the inputs, limited to what the operator admits.
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
    """One `ValueRange` per output; distinct objects, since the outputs are not equal."""
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
    """`ValueRange.remote` of the outputs; a narrow valid range of `op` itself is not counted."""
    read = [k.remote for k in inputs]
    if traits.reads:
        patterns = op.patterns(len(inputs))
        read = [remote for remote, p in zip(read, patterns) if not p.index] or [0]
    if moves:
        return max(read)
    if not traits.pointwise:
        return max(read) + 1
    if isinstance(op, Arithmetic):  # Changing any one term or factor changes the result.
        return min(read)
    bent = not (op.monotone or isinstance(op, Broadcasting))
    return max(read) + (op.whole == "always" or bent)


def _copied(op: OpSpec, traits: _Traits, inputs: Sequence[ValueRange]) -> bool:
    """Whether output elements may be copies of one another, made here or by an earlier operator."""
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
    """Whether enough valid values remain for the inputs; fixed inputs cannot be chosen."""
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
    """The number of integers in `[lo, hi]`."""
    return math.floor(hi) - math.ceil(lo) + 1 if math.isfinite(hi - lo) else math.inf


def input_ranges(op: OpSpec, inputs: Sequence[ValueRange]) -> Sequence[ValueRange]:
    """Ranges of the inputs, limited to what `op` admits; `inputs` itself if it admits all."""
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
    """The range of a placeholder of a type; bounds of integers are of type int."""
    return ValueRange(type_.dtype.limits if not type_.dtype.is_float else ANY_RANGE)


def _stored(dtype: DType, range_: Range) -> Range:
    """The range of numbers after storing them in a dtype, in which integers wrap around.

    Bounds of floats are of type float. Infinite bounds of integers become the dtype's limits.
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
    """The bounds of the output; exact if every input is a single number."""
    traits = _traits(type(op))  # type: ignore[arg-type]
    if traits.pointwise and False not in [lo == hi for lo, hi in ranges]:
        exact = _evaluated(op, [float(lo) for lo, _ in ranges])
        if exact is not None:
            return exact, exact
    lo, hi = op.value_range(*ranges)
    smooth = dtype.is_float and traits.elementwise and not fixed
    if smooth and math.isfinite(hi - lo) and not _finite(ranges):
        # A search does not find limits at infinity or at isolated points.
        short = EDGE * (hi - lo)
        return lo + short, hi - short
    return lo, hi


def _finite(ranges: Sequence[Range]) -> bool:
    return all(math.isfinite(end) for range_ in ranges for end in range_)


def _evaluated(op: OpSpec, numbers: Sequence[float]) -> float | None:
    """The result of the operator for scalars; None if it is undefined or not finite."""
    try:
        value = value_at(op, *numbers)
    except (RuntimeError, TypeError, IndexError):  # no float64, or no rank 0
        return None
    return value if math.isfinite(value) else None


def _ranges(inputs: Sequence[ValueRange]) -> list[Range]:
    """The input ranges; inputs that are the same object share one tuple, which marks them equal."""
    match inputs:
        case [one]:
            return [one.range]
        case [one, two]:
            first = (one.range[0], one.range[1])
            return [first, first if one is two else (two.range[0], two.range[1])]
    own = {id(known): (known.range[0], known.range[1]) for known in inputs}
    return [own[id(known)] for known in inputs]


def _variants(op: OpSpec, moves: bool, inputs: Sequence[ValueRange]) -> Iterator[list[Range]]:
    """The input ranges with a special range in place of one input's, or of all.

    Data movement keeps elements separate. Other operators may mix a special element with others
    (sums), indices may skip it, and special elements of several inputs need not meet. This is
    ignored, so a few valid insertions are refused.
    """
    if len(inputs) > 1 and all(known.special for known in inputs) and not moves:
        yield _ranges([ValueRange(k.special[0]) for k in inputs])
    read = [k for k, pattern in zip(inputs, op.patterns(len(inputs))) if not pattern.index]
    for chosen in dict.fromkeys(read):
        for special in chosen.special:
            ranges = _ranges(inputs)
            one = (special[0], special[1])
            yield [one if moves or k is chosen else r for k, r in zip(inputs, ranges)]
