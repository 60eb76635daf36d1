"""Checks whether a target's outputs lie in the envelope, and finds the worst element if not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nnfuzz.backend.target import Target
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.envelope import Enclosure, Envelope
from nnfuzz.compare.losses import losses
from nnfuzz.compare.mismatch import Element, Mismatch, MismatchKind, Number, Verdict
from nnfuzz.ir.dtypes import plain
from nnfuzz.ir.graph import Graph

Arrays = Mapping[str, np.ndarray]


def judge(
    graph: Graph,
    params: Arrays,
    outputs: Mapping[Target, Arrays],
    independent: Iterable[Iterable[Target]] = (),
) -> Verdict:
    """Run the reference, build the envelope and compare every target's outputs with it.

    independent: groups of targets that share no code, such as one group per compiler. If there are
    at least two groups and every target in them mismatches, the reference is suspect.

    Raises: ReferenceFault if an operator's reference semantics fail.
    """
    return judged(enclosure(graph, params), outputs, independent)


def judged(
    bounds: Enclosure,
    outputs: Mapping[Target, Arrays],
    independent: Iterable[Iterable[Target]] = (),
) -> Verdict:
    """The verdict for given envelopes, with `losses`. See `judge`."""
    plain = verdict(bounds.envelopes, outputs, independent)
    return replace(plain, defined=bounds.defined, losses=losses(bounds, plain.partial))


def verdict(
    envelope: Mapping[str, Envelope],
    outputs: Mapping[Target, Arrays],
    independent: Iterable[Iterable[Target]] = (),
) -> Verdict:
    """The verdict for given envelopes, without `losses`. See `judge`."""
    mismatches = {target: compare(envelope, arrays) for target, arrays in outputs.items()}
    groups = [[t for t in group if t in mismatches] for group in independent]
    groups = [group for group in groups if group]
    suspect = len(groups) > 1 and all(mismatches[t] for group in groups for t in group)
    shares = {name: _share(e.comparable) for name, e in envelope.items()}
    return Verdict(mismatches, shares, suspect)


def compare(envelope: Mapping[str, Envelope], outputs: Arrays) -> tuple[Mismatch, ...]:
    """The mismatches of one target's outputs, in the order of the envelope."""
    mismatches = (
        mismatch(name, expected, outputs.get(name)) for name, expected in envelope.items()
    )
    return tuple(m for m in mismatches if m is not None)


def mismatch(name: str, expected: Envelope, actual: np.ndarray | None) -> Mismatch | None:
    """How an output differs from the envelope; None if it lies inside."""
    dtype, shape = expected.dtype.numpy, expected.ref.shape
    if actual is None:
        return Mismatch(name, MismatchKind.MISSING, f"{dtype}{list(shape)}")
    if actual.dtype != dtype:
        return Mismatch(name, MismatchKind.DTYPE, str(dtype), str(actual.dtype))
    if actual.shape != shape:
        return Mismatch(name, MismatchKind.SHAPE, str(list(shape)), str(list(actual.shape)))
    wrong = outside(expected, actual)
    return _values(name, expected, actual, wrong) if wrong.any() else None


def outside(expected: Envelope, actual: np.ndarray) -> np.ndarray:
    """Mask of elements outside of the envelope."""
    least, most = expected.admitted
    actual = plain(actual)
    # Written so that NaN counts as outside.
    inside = actual >= least
    inside &= actual <= most
    if expected.dtype.is_float:  # NaN as a bound asks for NaN
        inside |= np.isnan(least) & np.isnan(actual)
    if expected.zero is not None:
        signs = np.where(np.signbit(actual), -1, 1)
        inside &= (actual != 0) | (expected.zero == 0) | (signs == expected.zero)
    inside |= expected.any
    return ~inside


def _values(name: str, expected: Envelope, actual: np.ndarray, wrong: np.ndarray) -> Mismatch:
    excess = excess_of(expected, actual)
    positions = np.flatnonzero(wrong)
    worst = positions[np.argmax(excess.reshape(-1)[positions])]
    first, worst = (
        _element(expected, actual, excess, np.unravel_index(i, actual.shape))
        for i in (positions[0], worst)
    )
    finite = not expected.dtype.is_float or bool(np.isfinite(plain(actual[wrong])).all())
    kind = MismatchKind.VALUE if finite else MismatchKind.NONFINITE
    share = len(positions) / max(1, int(np.count_nonzero(expected.comparable)))
    return Mismatch(
        name, kind, wrong=len(positions), share=min(1.0, share), worst=worst, first=first
    )


def excess_of(expected: Envelope, actual: np.ndarray) -> np.ndarray:
    """Distance of each element from the envelope: floats in ULP (NaN: infinite), others as is."""
    wide = actual.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        lo, hi = (end.astype(np.float64) for end in (expected.lo, expected.hi))
        distance = np.maximum(np.maximum(lo - wide, wide - hi), 0.0)
        if expected.dtype.is_float:
            distance = distance / np.maximum(expected.ulp, 5e-324)
    return np.nan_to_num(distance, nan=math.inf, posinf=math.inf)


def _element(
    expected: Envelope, actual: np.ndarray, excess: np.ndarray, index: tuple[Any, ...]
) -> Element:
    ref = expected.ref[index]
    if expected.dtype.is_float:
        with np.errstate(over="ignore"):
            ref = plain(ref.astype(expected.dtype.numpy))
    numbers = (ref, plain(actual[index]), expected.lo[index], expected.hi[index], excess[index])
    return Element(tuple(int(i) for i in index), *map(as_json_number, numbers))


def as_json_number(value: Any) -> Number:
    """A NumPy scalar as a JSON value."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return str(plain)
    return plain


def _share(mask: np.ndarray) -> float:
    return float(np.count_nonzero(mask)) / mask.size if mask.size else 1.0
