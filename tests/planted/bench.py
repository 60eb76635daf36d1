"""Runs every change on every test case and holds the outputs against the production judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import ml_dtypes
import numpy as np

from nnfuzz.backend.numeric import close
from nnfuzz.backend.target import Target
from nnfuzz.compare.mismatch import Mismatch
from nnfuzz.compare.reference import ReferenceFault
from nnfuzz.ir.dtypes import is_floating
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from tests.planted.changes import LEGAL, SUBTLE, Change
from tests.planted.program import Run, Unsupported, load, run
from tests.planted.vocabulary import CONFIG

Arrays = Mapping[str, np.ndarray]
BACKEND = "planted"
BEYOND = 64.0
"""Relative change, in machine epsilons of the dtype, from which on rounding is no excuse."""
SPREAD = 8.0
"""... and how many times the largest deviation among the legal variations of the same model."""


def cheap(expected: Arrays, outputs: Arrays) -> bool:
    """Whether every expected output is there and close: shape, dtype and values."""
    return all(name in outputs and close(array, outputs[name]) for name, array in expected.items())


@dataclass
class Score:
    """What became of one change.

    reached: models whose outputs it changed at all. effective: beyond rounding (see `effective`).
    found: effective ones that the production pipeline flags. cheap: effective ones that the cheap
    check let pass although the envelope objects. flagged: all that were flagged. failed: models
    that it broke noisily. first: how many models it took until the first one was flagged.
    alarms: on legal variations.
    """

    change: Change
    reached: int = 0
    effective: int = 0
    found: int = 0
    cheap: int = 0
    flagged: int = 0
    failed: int = 0
    first: int | None = None
    alarms: list[str] = field(default_factory=list)


@dataclass
class Bench:
    """The changes, their scores and the counts of models.

    changes: what is scored. legal: variations whose spread says what rounding can do; they are run
    on every model in which a planted bug reaches the output. baseline_alarms: O0 was flagged.
    faults: of nnfuzz's own reference.
    """

    seed: int
    changes: Sequence[Change]
    legal: Sequence[Change]
    config: CaseConfig = CONFIG
    models: int = 0
    refused: int = 0
    baseline_alarms: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = Producer(self.seed, self.config)
        self.scores = {change.name: Score(change) for change in self.changes}

    def run(self, models: int) -> None:
        """Until that many models have been judged."""
        index = 0
        while self.models < models:
            self.step(index)
            index += 1

    def step(self, index: int) -> TestCase | None:
        """Judges the model of an index, if there is one that the compiler takes."""
        case = self.producer.produce(index)
        if not isinstance(case, TestCase):
            return None
        try:
            program = load(case.model)
        except Unsupported:
            self.refused += 1
            return None
        self.models += 1
        try:
            self._judge(case, run(program, case.inputs))
        except ReferenceFault as error:
            self.faults.append(f"case {case.id.index}: {error}")
        return case

    def flagged(self) -> dict[str, int]:
        """How many models have shown each change so far."""
        return {name: score.flagged for name, score in self.scores.items()}

    def _judge(self, case: TestCase, base: Run) -> None:
        plain = base.outputs()
        changed = self._changed(case, base, plain)
        targets = {name: Target(f"{BACKEND} {name}") for name in ("", *changed)}
        outputs = {"": plain, **changed}
        verdict = self.producer.judge(case, {targets[name]: outputs[name] for name in targets})
        found = {name: verdict.mismatches[target] for name, target in targets.items()}
        if found[""]:
            self.baseline_alarms.append(describe(case, found[""]))
        spread = None
        for name, outputs in changed.items():
            score = self.scores[name]
            score.reached += 1
            wrong, agrees = bool(found[name]), cheap(case.expected, outputs)
            if wrong and not agrees:
                score.flagged += 1
                score.first = score.first or self.models
            if score.change.kind == LEGAL:
                if wrong:
                    score.alarms.append(describe(case, found[name]))
                continue
            if spread is None:
                spread = legal_spread(self.legal, case, base, plain)
            if effective(plain, outputs, spread):
                score.effective += 1
                score.found += wrong and not agrees
                score.cheap += wrong and agrees

    def _changed(self, case: TestCase, base: Run, plain: Arrays) -> dict[str, Arrays]:
        """The outputs of every change that reaches them."""
        found = {}
        for change in self.changes:
            program = change.apply(base.program)
            if program is None:
                continue
            try:
                outputs = run(program, case.inputs, base).outputs()
            except Exception:  # the compiler would have noticed: not a silent bug
                self.scores[change.name].failed += 1
                continue
            if not same(plain, outputs):
                found[change.name] = outputs
        return found


def same(a: Arrays, b: Arrays) -> bool:
    """Whether two results agree bit for bit, but for the sign and payload of NaN."""
    return all(
        x.dtype == b[n].dtype and np.array_equal(x, b[n], equal_nan=is_floating(x))
        for n, x in a.items()
    )


def legal_spread(
    legal: Sequence[Change], case: TestCase, base: Run, plain: Arrays
) -> dict[str, np.ndarray]:
    """Per output, the largest deviation of any legal variation from O0, element by element."""
    spread = {n: np.zeros(x.shape) for n, x in plain.items()}
    for change in legal:
        program = change.apply(base.program)
        if program is None:
            continue
        outputs = run(program, case.inputs, base).outputs()
        for name, x in plain.items():
            np.maximum(spread[name], distance(x, outputs[name]), out=spread[name])
    return spread


def distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """|x - y| in float64; infinite where one of them is not finite and they differ."""
    a, b = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(invalid="ignore"):
        d = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return np.nan_to_num(d, nan=np.inf, posinf=np.inf)


def effective(plain: Arrays, outputs: Arrays, spread: Arrays) -> bool:
    """Whether outputs differ from O0 by more than rounding explains; asks no oracle.

    Another dtype or shape; a discrete element that no legal variation changes; a float further
    away than BEYOND epsilons of its value and than SPREAD times the legal variations' deviation.
    """
    return any(
        outputs[n].dtype != x.dtype
        or outputs[n].shape != x.shape
        or bool((excess(x, outputs[n], spread[n]) > 1).any())
        for n, x in plain.items()
    )


def excess(x: np.ndarray, y: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Per element, the deviation from O0 as a multiple of what rounding explains."""
    limit = SPREAD * spread
    if is_floating(x):
        info = ml_dtypes.finfo(x.dtype)
        size = np.abs(x.astype(np.float64))
        with np.errstate(invalid="ignore", over="ignore"):
            limit = limit + BEYOND * (float(info.eps) * size + float(info.tiny))
        limit = np.where(np.isfinite(size), limit, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(distance(x, y) / limit, nan=0.0, posinf=np.inf)


def describe(case: TestCase, mismatches: Sequence[Mismatch]) -> str:
    """One line on the first mismatch."""
    worst = mismatches[0].worst
    told = f"case {case.id.index}: {mismatches[0]}"
    return told + (f", not in [{worst.lo}, {worst.hi}]" if worst else "")


@dataclass(frozen=True)
class Recall:
    """Over bugs (found in some model / effective in some model) and over pairs (bug, model)."""

    bugs: int
    found: int
    pairs: int
    found_pairs: int
    models_needed: float | None

    @classmethod
    def of(cls, scores: Sequence[Score]) -> Recall:
        """Counts the bugs that were effective in some model."""
        live = [s for s in scores if s.effective]
        firsts = [s.first for s in live if s.first]
        return cls(
            len(live),
            sum(s.found > 0 for s in live),
            sum(s.effective for s in live),
            sum(s.found for s in live),
            median(firsts) if firsts else None,
        )

    def __str__(self) -> str:
        if not self.bugs:
            return "no effective bug"
        return (
            f"{self.found}/{self.bugs} bugs = {self.found / self.bugs:.1%}, "
            f"{self.found_pairs}/{self.pairs} (bug, model) pairs = "
            f"{self.found_pairs / self.pairs:.1%}, median {self.models_needed} models"
        )


def recalls(scores: Sequence[Score]) -> dict[str, Recall]:
    planted = [s for s in scores if s.change.kind != LEGAL]
    return {
        "all": Recall.of(planted),
        "structural": Recall.of([s for s in planted if s.change.kind != SUBTLE]),
        "subtle": Recall.of([s for s in planted if s.change.kind == SUBTLE]),
    }
