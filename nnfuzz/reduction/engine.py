"""The engine of the reducer: owns the interestingness test, the cache and the budget.

Passes only propose. A candidate counts if it is simpler (nnfuzz.reduction.subject.Subject.measure)
and still fails in the same way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nnfuzz.ir.view import GraphView
from nnfuzz.reduction.candidate import CandidateQuestion, Tried
from nnfuzz.reduction.edit import ORDER, Group
from nnfuzz.reduction.trials import Trials
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.mismatch import wrong_outputs
from nnfuzz.triage.pattern import first_copy

BUDGET = 800
"""Candidates that are run."""
SWEEPS = 6
"""Rounds of all passes; a round in which none succeeds is the last one."""


@dataclass
class ReductionProgress:
    """How a reduction stands; handed to whoever watches. measure: see Subject.measure."""

    by: str = ""
    run: int = 0
    budget: int = BUDGET
    nodes: int = 0
    measure: tuple[int, ...] = ()


Watch = Callable[[ReductionProgress], None]


class ReductionEngine:
    """Reduces one test case.

    initial: the case as it failed in these trials; wanted: the failure key that candidates must
    keep. adopted: it and every better case since, the present one last. enough: asked of every
    better candidate; once it agrees, reduction is over. keeps: whether a candidate may still have
    the cause; asked of its graph.
    """

    def __init__(
        self,
        trials: Trials,
        question: CandidateQuestion,
        initial: Tried,
        wanted: str,
        budget: int = BUDGET,
        watch: Watch = lambda progress: None,
        seconds: float = math.inf,
        enough: Callable[[Tried], bool] = lambda tried: False,
        keeps: Callable[[GraphView], bool] = bool,
    ) -> None:
        self._end = time.monotonic() + seconds
        self.trials, self.question, self.wanted = trials, question, wanted
        self.best = initial
        self.adopted = [initial]
        self.budget, self.watch = budget, watch
        self.known = trials.known(question)
        self.spent: set[str] = {initial.digest}
        self.progress = ReductionProgress(
            budget=budget, measure=initial.measure, nodes=initial.measure[0]
        )
        self._enough, self.keeps = enough, keeps
        self.over = enough(initial)

    @property
    def case(self) -> TestCase:
        assert self.best.case is not None
        return self.best.case

    def reduce(self) -> Tried:
        """Runs all passes until none succeeds any more or the budget is spent."""
        for _ in range(SWEEPS):
            before = self.best
            for name in ORDER:
                if not self._left():
                    return self.best
                self._pass(name)
            if self.best is before:
                break
        return self.best

    def interesting(self, tried: Tried) -> bool:
        """Whether a candidate fails in the wanted way, and for the wanted cause."""
        same = any(mark == self.wanted for _, mark in tried.failing)
        return same and tried.case is not None and self.keeps(tried.case.graph)

    def _left(self) -> int:
        ended = self.over or time.monotonic() >= self._end
        return 0 if ended else self.budget - self.progress.run

    def _pass(self, name: str) -> None:
        """Applies one pass until it has nothing new to offer.

        Groups that failed once are not tried again on what a later success left.
        """
        self.progress.by = name
        done: set[tuple[str, ...]] = set()
        while self._left() > 0:
            proposed = self._proposed(name)
            fresh = [g for g in proposed if tuple(e.key for e in g) not in done]
            position = self.first(fresh)
            if position is None:
                break
            done.update(tuple(e.key for e in group) for group in fresh[:position])

    def _proposed(self, name: str) -> list[Group]:
        """The groups of edits of a pass that are worth a try on the present best case.

        An error is raised at the last node of a prefix of the model, so "halves" and those
        neighbourhoods that hold the last node are tried for errors; "halves" is not for wrong
        values, which need no prefix.
        """
        if name == "halves" and self.question.judged:
            return []
        proposed = self._focused(self.trials.propose(self.case, name))
        if name != "neighbourhoods" or self.question.judged:
            return proposed
        last = first_copy(self.case.graph)[-1].outputs[0]
        return [group for group in proposed if last in group[0].value]

    def _focused(self, proposed: list[Group]) -> list[Group]:
        """The edits about the failing element, with its place; without them if it has none."""
        place = self._place()
        if place is None:
            return [group for group in proposed if not any(e.needs_focus for e in group)]
        return [tuple(e.focused(place) for e in group) for group in proposed]

    def _place(self) -> list[Any] | None:
        """[output, index] of the worst element of the failure that is wanted."""
        wanted = [failure for failure, mark in self.best.failing if mark == self.wanted]
        places = [
            [wrong.output, list(wrong.worst.index)]
            for wrong in wrong_outputs(self.best.verdict)
            for failure in wanted
            if wrong.worst and wrong.target in failure.targets
        ]
        return places[0] if places else None

    def first(self, candidates: Sequence[Group]) -> int | None:
        """Adopts the first candidate that is simpler and interesting; its position, if any."""
        for position, edits in enumerate(candidates):
            if self._left() <= 0:
                break
            tried = self.trials.run(self.case, edits, self.question, self.best.measure)
            if self._consumed(tried):
                self.adopt(tried)
                return position
        return None

    def _consumed(self, tried: Tried) -> bool:
        """Counts a candidate; whether it is to be adopted."""
        if not tried.digest:
            return False
        if tried.digest not in self.spent:
            self.spent.add(tried.digest)
            self.progress.run += 1
            self.watch(self.progress)
        return self._better(tried)

    def _better(self, tried: Tried) -> bool:
        return self.interesting(tried) and tried.measure < self.best.measure

    def adopt(self, tried: Tried) -> None:
        """Goes on with a case, which need not be simpler by its measure."""
        self.best = tried
        self.adopted.append(tried)
        self.over = self._enough(tried)
        self.progress.measure, self.progress.nodes = tried.measure, tried.measure[0]
        self.watch(self.progress)
