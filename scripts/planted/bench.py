"""Runs every change on every test case and holds the outputs against the production judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from nnfuzz.compare.cheap import cheap
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from planted.changes import LEGAL, SUBTLE, Change
from planted.program import Run, Unsupported, load, run

Arrays = Mapping[str, np.ndarray]
BACKEND = "planted"
BEYOND = 64.0
"""Relative change, in machine epsilons of the dtype, from which on rounding is no excuse."""
SPREAD = 8.0
"""... and how many times the largest deviation among the legal variations of the same model."""


@dataclass
class Score:
    """What became of one change.

    reached: models whose outputs it changed at all. effective: beyond rounding (see `effective`).
    found: effective ones that the production pipeline flags. cheap: effective ones that the cheap
    check let pass although the envelope objects. flagged: all that were flagged. first: how many
    models it took until the first one was flagged. masked: of the effective ones that were missed,
    those where no wrong element was comparable. missed: indices of test cases.
    """

    change: Change
    reached: int = 0
    effective: int = 0
    found: int = 0
    cheap: int = 0
    flagged: int = 0
    failed: int = 0
    first: int | None = None
    missed: list[int] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        data = {k: v for k, v in vars(self).items() if k != "change"}
        return {"name": self.change.name, "kind": self.change.kind, "text": self.change.text, **data}


@dataclass
class Bench:
    """The changes, their scores and the counts of models.

    changes: what is scored. legal: variations whose spread says what rounding can do; they are run
    on every model in which a planted bug reaches the output.
    """

    seed: int
    changes: Sequence[Change]
    legal: Sequence[Change]
    config: CaseConfig = field(default_factory=lambda: CaseConfig(exporter="direct"))
    models: int = 0
    refused: int = 0
    baseline_alarms: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = Producer(self.seed, self.config)
        self.scores = {change.name: Score(change) for change in self.changes}

    def run(self, models: int, report: Callable[[int], None] = lambda done: None) -> None:
        """Until that many models have been judged."""
        index = 0
        while self.models < models:
            case = self.producer.produce(index)
            index += 1
            if not isinstance(case, TestCase):
                continue
            try:
                program = load(case.model)
            except Unsupported:
                self.refused += 1
                continue
            self.models += 1
            self._judge(case, run(program, case.inputs))
            report(self.models)

    def _judge(self, case: TestCase, base: Run) -> None:
        plain = base.outputs()
        changed = self._changed(case, base, plain)
        parties = [(BACKEND, "O0"), *((f"{BACKEND}:{name}", "O1") for name in changed)]
        verdict = self.producer.judge(case, parties, [plain, *changed.values()])
        found = {name.partition(":")[2].partition("/")[0]: m
                 for name, m in verdict["mismatches"].items() if name.startswith(BACKEND)}
        if found[""]:
            self.baseline_alarms.append(describe(case, found[""]))
        spread = None
        for name, outputs in changed.items():
            score = self.scores[name]
            score.reached += 1
            outside, agrees = bool(found[name]), cheap(case.expected, outputs)
            if outside and not agrees:
                score.flagged += 1
                score.first = score.first or self.models
            if score.change.kind == LEGAL:
                if outside:
                    score.alarms.append(describe(case, found[name]))
                continue
            if spread is None:
                spread = legal_spread(self.legal, case, base, plain)
            if effective(plain, outputs, spread):
                score.effective += 1
                score.found += outside and not agrees
                score.cheap += outside and agrees
                if not outside or agrees:
                    score.missed.append(case.index)

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
    return all(
        x.dtype == b[n].dtype and x.shape == b[n].shape and np.array_equal(x, b[n])
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
    for name, x in plain.items():
        y = outputs[name]
        if y.dtype != x.dtype or y.shape != x.shape:
            return True
        limit = SPREAD * spread[name]
        if x.dtype.kind == "f":
            info = np.finfo(x.dtype)
            with np.errstate(invalid="ignore", over="ignore"):
                limit = limit + BEYOND * (
                    float(info.eps) * np.abs(x.astype(np.float64)) + float(info.tiny)
                )
            limit = np.where(np.isfinite(x), limit, np.inf)
        if (distance(x, y) > limit).any():
            return True
    return False


def describe(case: TestCase, mismatches: Sequence[Mapping[str, Any]]) -> str:
    """One line on the first mismatch."""
    first, worst = mismatches[0], mismatches[0].get("worst") or {}
    return (
        f"case {case.index}: {first['output']} {first['kind']} {first['actual']}"
        f" {worst.get('actual', '')} not in [{worst.get('lo', '')}, {worst.get('hi', '')}]"
    )


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
