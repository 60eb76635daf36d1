"""The release in which a failure came or went: a binary search that runs as few as it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class ReleaseAnswer(StrEnum):
    """How a release behaves on a test that fails in another one."""

    FAILS = "fails"
    RIGHT = "right"
    DIFFERENT = "fails differently"
    UNSUPPORTED = "does not support the model"
    SKIPPED = "cannot be installed"


@dataclass(frozen=True)
class BisectionStep:
    """One release that was tried. seen: how it fails, in a line (the name is that in finding.json);
    may be empty.
    """

    release: str
    answer: ReleaseAnswer
    seen: str = ""


@dataclass(frozen=True)
class Bisection:
    """result: a sentence. release: with which the answer changes; "" where it does not."""

    compiler: str
    result: str
    release: str
    steps: tuple[BisectionStep, ...]


Ask = Callable[[str], BisectionStep]


def came(compiler: str, releases: Sequence[str], ask: Ask, right: bool = False) -> Bisection:
    """The first release with a failure. releases: the oldest first; the last one fails. right:
    whether the first one is known to be right, so that it need not be asked.
    """
    search = _Search(releases, ask, 0 if right else -1, len(releases) - 1)
    before, first = search.boundary(lambda answer: answer is not ReleaseAnswer.FAILS)
    if before < 0:
        sentence, release = f"fails in {releases[first]} already, the oldest that was asked", ""
    else:
        release = releases[first]
        sentence = f"fails since {release}; {search.described(before)}"
    return search.result(compiler, sentence, release)


def went(compiler: str, releases: Sequence[str], ask: Ask, right: bool = False) -> Bisection:
    """The first release without any failure. releases: the oldest first, which fails. right:
    whether the last one is known to be right.
    """
    search = _Search(releases, ask, 0, len(releases) - right)
    last, after = search.boundary(
        lambda answer: answer in (ReleaseAnswer.FAILS, ReleaseAnswer.DIFFERENT)
    )
    if after == len(releases):
        sentence, release = f"still fails in {releases[last]}", ""
    else:
        release = releases[after]
        sentence = f"{search.described(after)}; it fails up to {releases[last]}"
    return search.result(compiler, sentence, release)


class _Search:
    """low, high: positions whose answers are known, or which are no releases; not asked."""

    def __init__(self, releases: Sequence[str], ask: Ask, low: int, high: int) -> None:
        self._releases, self._ask = releases, ask
        self._low, self._high = low, high
        self._steps: dict[str, BisectionStep] = {}

    def boundary(self, is_low: Callable[[ReleaseAnswer], bool]) -> tuple[int, int]:
        """The neighbours between which the answer changes, of those that can be installed."""
        while inside := [
            i for i in range(self._low + 1, self._high) if self._releases[i] not in self._steps
        ]:
            middle = inside[len(inside) // 2]
            step = self._ask(self._releases[middle])
            self._steps[step.release] = step
            if step.answer is ReleaseAnswer.SKIPPED:
                continue
            if is_low(step.answer):
                self._low = middle
            else:
                self._high = middle
        return self._low, self._high

    def described(self, position: int) -> str:
        """A release and its answer, for people."""
        name = self._releases[position]
        answer = self._steps[name].answer if name in self._steps else ReleaseAnswer.RIGHT
        return f"{name} {'is right' if answer is ReleaseAnswer.RIGHT else answer}"

    def result(self, compiler: str, sentence: str, release: str) -> Bisection:
        between = self._releases[self._low + 1 : self._high]
        if between:
            sentence += f" ({', '.join(between)} cannot be installed)"
        return Bisection(compiler, sentence, release, tuple(self._steps.values()))
