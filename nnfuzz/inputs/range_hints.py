"""Range hints: ranges of inputs and weights in which the nodes that read them are probably valid.

A hint is a closed range and a heuristic: it makes the first random draw succeed more often. Where
it fails, the gradient search takes over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.carriers import rounded, settled
from nnfuzz.operators.families.elementwise import pointwise
from nnfuzz.operators.operator import ANY_RANGE, OpSpec, Range, flatten

RangeHints = dict[str, Range]

FLOAT_CHOICES: tuple[Range, ...] = (
    (-3, 3), (0.1, 3), (-0.9, 0.9), (-3, -0.1), (1.1, 4), (0.1, 0.9),
    (0.6, 1.4), (-0.4, 0.4), (-12, -4), (4, 12),
)  # fmt: skip
INTEGER_CHOICES: tuple[Range, ...] = ((-8, 8), (1, 9), (-9, -1), (0, 3), (1, 1), (10, 99))
BOOL_CHOICES: tuple[Range, ...] = ((0, 1), (1, 1), (0, 0))
MANY = 64
"""The most inputs of a node for which ranges are tried: a Sum of foreign models may have 3,000."""
TRIALS = 24
"""Random combinations of ranges tried per node."""
SAMPLES = 33
"""Elements per sample of a range."""
FAR = 2.0**40
"""Number that stands for infinity in samples."""
TABLED = 3
"""Nodes with at most so many inputs have all combinations of ranges evaluated at once."""


def range_hints(
    graph: Graph, rng: np.random.Generator, shuffled: bool, bounds: RangeHints | None = None
) -> RangeHints:
    """Hints for values of the graph, inside of `bounds`; many values have none.

    shuffled: try ranges in random order instead of the widest first, for another attempt.
    """
    found: RangeHints = dict(bounds or {})
    with torch.inference_mode():
        for node in reversed(graph.nodes):
            wanted = _of_outputs(node, found)
            if wanted is not None or _partly_undefined(node.op):
                _add_hints(graph, node, wanted, found, rng, shuffled)
    return found | {name: _cut(found[name], hard) for name, hard in (bounds or {}).items()}


def _of_outputs(node: Node, found: RangeHints) -> Range | None:
    wanted = [found[name] for name in node.outputs if name in found]
    if not wanted:
        return None
    lo, hi = max(w[0] for w in wanted), min(w[1] for w in wanted)
    return (lo, hi) if lo <= hi else wanted[0]


def _partly_undefined(op: OpSpec) -> bool:
    """Whether the operator is undefined for some moderate numbers."""
    return bool(op.valid) or (pointwise(op) and type(op).domain is not OpSpec.domain)


def _add_hints(
    graph: Graph,
    node: Node,
    wanted: Range | None,
    found: RangeHints,
    rng: np.random.Generator,
    shuffled: bool,
) -> None:
    """Add hints for a node's inputs under which it is valid and its outputs lie in `wanted`.

    If no ranges achieve both, the hints only make the node valid.
    """
    dtypes = [graph.type(name).dtype for name in node.inputs]
    have = [found.get(name, ANY_RANGE) for name in node.inputs]
    if not pointwise(node.op):
        valid = [*node.op.valid, *[None] * len(have)]
        have = [_cut(h, v or ANY_RANGE) for h, v in zip(have, valid)]
        found.update((n, h) for n, h in zip(node.inputs, have) if h != ANY_RANGE)
        if wanted is None:
            return
    if len(dtypes) > MANY:
        return
    options = _options(node.op, dtypes, have)
    if not all(options):
        return
    for goal in (wanted, None) if wanted is not None and _partly_undefined(node.op) else (wanted,):
        ranges = None if shuffled else _same_ranges(node.op, dtypes, options, goal)
        ranges = ranges or _mixed(node.op, dtypes, options, goal, rng)
        if ranges is not None:
            ranges = _widened(node.op, dtypes, have, ranges, goal)
            found.update((n, r) for n, r in zip(node.inputs, ranges) if r != ANY_RANGE)
            return


def _cut(have: Range, bounds: Range) -> Range:
    """The intersection of a range with bounds; the bounds if the intersection is empty."""
    cut = max(have[0], bounds[0]), min(have[1], bounds[1])
    return cut if cut[0] <= cut[1] else bounds


def _options(
    op: OpSpec, dtypes: Sequence[DType], have: Sequence[Range]
) -> Sequence[Sequence[Range]]:
    """Ranges to try for each input. Index inputs have one only, which follows from shapes."""
    patterns = op.patterns(len(dtypes))
    if pointwise(op) and any(p.index for p in patterns):
        return [[]]
    return [
        [h] if p.index else _narrowed(_choices(d), h) for d, h, p in zip(dtypes, have, patterns)
    ]


def _same_ranges(
    op: OpSpec,
    dtypes: Sequence[DType],
    options: Sequence[Sequence[Range]],
    wanted: Range | None,
) -> list[Range] | None:
    """The first of the choices, the same for all inputs, under which the node is valid, or None."""
    columns = _columns(tuple(map(tuple, options)))
    if pointwise(op):
        key = tuple(op.attributes.items()), tuple(dtypes), columns
        place = _first(type(op), *key, wanted)  # type: ignore[arg-type]
        return None if place is None else [column[place] for column in columns]
    alike = (list(ranges) for ranges in zip(*columns))
    return next((ranges for ranges in alike if _by_ranges(op, ranges, wanted)), None)


@lru_cache(maxsize=1 << 12)
def _columns(options: tuple[tuple[Range, ...], ...]) -> tuple[tuple[Range, ...], ...]:
    """The options, padded to equal length with their last range."""
    count = max(map(len, options))
    return tuple((*o, *o[-1:] * (count - len(o))) for o in options)


def _mixed(
    op: OpSpec,
    dtypes: Sequence[DType],
    options: Sequence[Sequence[Range]],
    wanted: Range | None,
    rng: np.random.Generator,
) -> list[Range] | None:
    """A random combination of ranges under which the node is valid; None if none is found."""
    if pointwise(op) and len(options) <= TABLED:
        key = tuple(op.attributes.items()), tuple(dtypes), tuple(map(tuple, options))
        places = _table(type(op), *key, wanted)  # type: ignore[arg-type]
        if not places:
            return None
        return [o[i] for o, i in zip(options, places[int(rng.integers(len(places)))])]
    for _ in range(TRIALS):
        ranges = [o[int(rng.integers(len(o)))] for o in options]
        if pointwise(op):
            if _valid_on_samples(op, dtypes, ranges, wanted):
                return ranges
        elif _by_ranges(op, ranges, wanted):
            return ranges
    return None


def _widened(
    op: OpSpec,
    dtypes: Sequence[DType],
    have: Sequence[Range],
    ranges: list[Range],
    wanted: Range | None,
) -> list[Range]:
    """The ranges, replaced by ANY_RANGE where they are unnecessary, as for a dividend."""
    fits = _valid_on_samples if pointwise(op) else _by_numbers
    for i, (dtype, pattern) in enumerate(zip(dtypes, op.patterns(len(dtypes)))):
        if have[i] == ANY_RANGE and not dtype.is_bool and not pattern.index:
            wide = [*ranges[:i], _far(dtype), *ranges[i + 1 :]]
            if fits(op, dtypes, wide, wanted):
                ranges = [*ranges[:i], ANY_RANGE, *ranges[i + 1 :]]
    return ranges


def _far(dtype: DType) -> Range:
    """A range that stands for all numbers of a dtype in samples."""
    least, most = dtype.limits
    return max(least, -FAR), min(most, FAR)


def _by_numbers(
    op: OpSpec, dtypes: Sequence[DType], ranges: Sequence[Range], wanted: Range | None
) -> bool:
    return _by_ranges(op, ranges, wanted)


def _choices(dtype: DType) -> tuple[Range, ...]:
    return FLOAT_CHOICES if dtype.is_float else BOOL_CHOICES if dtype.is_bool else INTEGER_CHOICES


@lru_cache(maxsize=1 << 12)
def _narrowed(choices: tuple[Range, ...], have: Range) -> tuple[Range, ...]:
    """The choices cut to an existing hint, after the hint itself if that is bounded."""
    own = [have] if have[0] > -math.inf or have[1] < math.inf else []
    cut = [(max(lo, have[0]), min(hi, have[1])) for lo, hi in choices]
    return (*own, *((lo, hi) for lo, hi in cut if lo <= hi))


def _valid_on_samples(
    op: OpSpec, dtypes: Sequence[DType], ranges: Sequence[Range], wanted: Range | None
) -> bool:
    """Whether samples of the ranges are valid and give results in the wanted range."""
    return _pointwise_valid(
        type(op),  # type: ignore[arg-type]
        tuple(op.attributes.items()),
        tuple(dtypes),
        tuple(ranges),
        wanted,
    )


@lru_cache(maxsize=1 << 14)
def _pointwise_valid(
    spec: type[OpSpec],
    attributes: tuple[tuple[str, object], ...],
    dtypes: tuple[DType, ...],
    ranges: tuple[Range, ...],
    wanted: Range | None,
) -> bool:
    """`_valid_on_samples`, cached, because graphs repeat operators and ranges."""
    op = spec(**dict(attributes))
    samples = [_sample(d, r, i) for i, (d, r) in enumerate(zip(dtypes, ranges))]
    return bool(_in_domain(op, samples)) and bool(_as_wanted(op, samples, wanted))


@lru_cache(maxsize=1 << 14)
def _first(
    spec: type[OpSpec],
    attributes: tuple[tuple[str, object], ...],
    dtypes: tuple[DType, ...],
    columns: tuple[tuple[Range, ...], ...],
    wanted: Range | None,
) -> int | None:
    """The first position at which the ranges of all inputs are valid together, or None."""
    op = spec(**dict(attributes))
    rows = [_rows(d, ranges, i) for i, (d, ranges) in enumerate(zip(dtypes, columns))]
    (places,) = _in_domain(op, rows).nonzero(as_tuple=True)
    if len(places):
        places = places[_as_wanted(op, [row[places] for row in rows], wanted)]
    return int(places[0]) if len(places) else None


@lru_cache(maxsize=1 << 12)
def _rows(dtype: DType, ranges: tuple[Range, ...], position: int) -> torch.Tensor:
    """Samples of several ranges, one row each."""
    return torch.stack([_sample(dtype, r, position) for r in ranges])


@lru_cache(maxsize=1 << 12)
def _table(
    spec: type[OpSpec],
    attributes: tuple[tuple[str, object], ...],
    dtypes: tuple[DType, ...],
    options: tuple[tuple[Range, ...], ...],
    wanted: Range | None,
) -> list[list[int]]:
    """The valid combinations of ranges, each as one position per input."""
    op = spec(**dict(attributes))
    rows = [_rows(d, ranges, i) for i, (d, ranges) in enumerate(zip(dtypes, options))]
    places = torch.cartesian_prod(*map(torch.arange, map(len, options))).reshape(-1, len(rows))
    places = places[_in_domain(op, [row[at] for row, at in zip(rows, places.T)])]
    if len(places):
        places = places[_as_wanted(op, [row[at] for row, at in zip(rows, places.T)], wanted)]
    return places.tolist()


def _in_domain(op: OpSpec, samples: Sequence[torch.Tensor]) -> torch.Tensor:
    """Mask of the samples (all axes but the last) whose elements are all valid."""
    valid = torch.ones(samples[0].shape[:-1], dtype=torch.bool)
    for term in op.domain(*samples):
        valid = valid & (term <= 0).all(-1)
        if len(samples) == 1:
            valid = valid & ~_steep(term)
    return valid


def _as_wanted(op: OpSpec, samples: Sequence[torch.Tensor], wanted: Range | None) -> torch.Tensor:
    """Mask of the samples whose results are all finite and in the wanted range."""
    (result,) = flatten(op.torch(*samples))
    if wanted is None:
        return torch.isfinite(result).all(-1)
    return ((result >= wanted[0]) & (result <= wanted[1])).all(-1)


def _steep(term: torch.Tensor) -> torch.Tensor:
    """Mask of the samples where a domain term may be positive between neighbouring points."""
    before, behind = term[..., :-1], term[..., 1:]
    return (torch.maximum(before, behind) + (behind - before).abs() / 2 > 0).any(-1)


@lru_cache(maxsize=1 << 12)
def _sample(dtype: DType, range_: Range, position: int) -> torch.Tensor:
    """Numbers spread over a range. Their order depends on the input, so that values combine."""
    lo, hi = range_
    if range_ != _far(dtype):
        lo, hi = max(lo, -100.0), min(hi, 100.0)
    points = torch.linspace(min(lo, hi), max(lo, hi), SAMPLES, dtype=torch.float64)
    if lo < 0 < hi:
        points[int(-lo / (hi - lo) * SAMPLES)] = 0.0
    if position:
        points = points[_ORDERS[position % len(_ORDERS)]]
    if dtype.is_float:
        return rounded(points, dtype)
    return settled(points.round().to(dtype.torch), dtype)


_ORDERS = tuple(
    torch.tensor([(i * step + shift) % SAMPLES for i in range(SAMPLES)])
    for step, shift in ((1, 0), (32, 32), (5, 3), (7, 2))
)


def _by_ranges(op: OpSpec, ranges: Sequence[Range], wanted: Range | None) -> bool:
    """Whether `valid` and `value_range` imply valid inputs and outputs in the wanted range."""
    for bounds, (lo, hi) in zip(op.valid, ranges):
        if bounds is not None and not bounds[0] <= lo <= hi <= bounds[1]:
            return False
    if wanted is None:
        return True
    lo, hi = op.value_range(*ranges)
    return wanted[0] <= lo and hi <= wanted[1]
