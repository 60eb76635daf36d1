"""The service inside of a worker that makes entries of a corpus, with tolerances.

A tolerance is for runners that compare with expected outputs alone. It is as wide as the envelope:
it admits the rounding of correct compilers and no wrong values. NumPy's allclose and ONNX's test
runner use the same form: |actual - expected| <= atol + rtol |expected|.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from nnfuzz.base.reading import Json
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.envelope import Envelope
from nnfuzz.corpus.layout import Entry, Tolerance
from nnfuzz.corpus.producers import MakeEntry
from nnfuzz.ir.dtypes import plain
from nnfuzz.ir.sizes import name_and_copy
from nnfuzz.materialize.opsets import is_called
from nnfuzz.sandbox.job import Report, Service, does
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.producer import Producer

QUANTILES = np.linspace(0.0, 1.0, 9)
"""Quantiles of the relative radii, which are the values of rtol that are tried."""
SLACK = 1 + 2**-6
"""Margin for consumers that compute in the outputs' dtype: bfloat16, the least precise dtype that
NumPy compares in this way, rounds by 2^-8 in each of four operations."""
SMALLEST = 1e-300
"""Smallest step of tolerances, below which float64 cannot hold three digits."""
UNDECIDED, BLUNT = "undecided", "blunt"


class CorpusService(Service):
    """One per worker; loads operator specs once."""

    def __init__(self, seed: int, config: Mapping[str, Json], cache: str = "") -> None:
        """cache: as a Producer has it."""
        self.producer = Producer(seed, CaseConfig.from_json(config), cache)

    @does(MakeEntry)
    def make(self, job: MakeEntry, report: Report) -> Entry | NotProduced:
        made = self.producer.made(job.test, report)
        return self._entry(made, report) if isinstance(made, TestCase) else made

    def _entry(self, case: TestCase, report: Report) -> Entry | NotProduced:
        """The case with tolerances; NotProduced where its outputs cannot be compared."""
        report("tolerances")
        graph = self.producer.load(case)
        bounds = enclosure(graph, {**case.inputs, **case.weights}, case.expected).envelopes
        if why := why_unfit(bounds):
            return NotProduced(case.id, why, f"its outputs are {why}", graph=case.graph)
        radii: dict[str, list[Radii]] = {}
        for name, own in bounds.items():
            stem = name_and_copy(name)[0] if is_called(case.exporter) else name
            radii.setdefault(stem, []).append(Radii.of(own, case.expected[name]))
        each = {name: Radii.merged(own).fit() for name, own in radii.items()}
        return Entry(case, each, Radii.merged(chain(*radii.values())).fit())


def corpus_service(seed: int, config: Mapping[str, Json], cache: str = "") -> CorpusService:
    """The factory that sandboxes name."""
    return CorpusService(seed, config, cache)


@dataclass(frozen=True, eq=False)
class Radii:
    """The finite elements of an output, in flat float64 arrays.

    size: |expected|. radius: how far a correct compiler may be from it. unit: the width that a
    tolerance should not exceed; for discrete elements, whose radius is 0, it is 0.5.
    """

    size: np.ndarray
    radius: np.ndarray
    unit: np.ndarray

    @classmethod
    def of(cls, envelope: Envelope, expected: np.ndarray) -> Radii:
        value = plain(expected).astype(np.float64).ravel()
        if not envelope.dtype.is_float:
            return cls(np.abs(value), np.zeros(value.size), np.full(value.size, 0.5))
        number = np.isfinite(value)  # consumers compare NaN and infinities for equality
        ends = (*envelope.admitted, envelope.ulp)
        least, most, ulp = (end.astype(np.float64).ravel()[number] for end in ends)
        value = value[number]
        radius = np.maximum(np.maximum(most - value, value - least), 0.0)
        unit = np.maximum(radius, np.maximum(ulp, np.finfo(np.float64).tiny))
        return cls(np.abs(value), radius, unit)

    @classmethod
    def merged(cls, parts: Iterable[Radii]) -> Radii:
        parts = list(parts)
        return cls(
            *(np.concatenate([getattr(p, n) for p in parts]) for n in ("size", "radius", "unit"))
        )

    def fit(self) -> Tolerance:
        """The tolerance that admits every radius and exceeds the units least on average."""
        if not self.radius.any():
            return Tolerance()
        sized = self.size > 0
        tried = np.quantile(self.radius[sized] / self.size[sized], QUANTILES) if sized.any() else []
        fits = [(r, max(0.0, float((self.radius - r * self.size).max()))) for r in (0.0, *tried)]
        rtol, atol = min(fits, key=lambda fit: self._excess(*fit))
        return Tolerance(_rounded_up(rtol * SLACK), _rounded_up(atol * SLACK))

    def _excess(self, rtol: float, atol: float) -> float:
        """Bits by which the tolerance is wider than the units, on average."""
        width = np.maximum(atol + rtol * self.size, self.unit)
        return float((np.log2(width) - np.log2(self.unit)).mean())


def why_unfit(envelopes: Mapping[str, Envelope]) -> str:
    """Why a comparison with the expected outputs shows nothing; "" if it does.

    UNDECIDED: a correct compiler may return anything for some element, as behind an overflow or a
    comparison of equal numbers. BLUNT: an output is so uncertain that zeros would pass everywhere.
    """
    if not all(bool(e.comparable.all()) for e in envelopes.values()):
        return UNDECIDED
    floats = [e for e in envelopes.values() if e.dtype.is_float and e.ref.any()]
    return BLUNT if any(_takes_zeros(e) for e in floats) else ""


def _takes_zeros(envelope: Envelope) -> bool:
    least, most = envelope.admitted
    return bool(((least <= 0) & (most >= 0)).all())


def _rounded_up(value: float) -> float:
    """Three significant digits, never less."""
    if not value:
        return 0.0
    step = max(10.0 ** (math.floor(math.log10(value)) - 2), SMALLEST)
    return float(f"{math.ceil(value / step) * step:.3g}")
