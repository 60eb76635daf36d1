"""How often reference implementations agree with an operator's `torch`, and where not to.

`arbitrate` draws solved instances until onnx.reference has agreed with so many of them, and asks
every other one about the same ones. `example_of` looks for a small instance that shows what a
`Waiver` claims; `weigh` does both.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nnfuzz.check import instances as draws
from nnfuzz.check.questions import Questions, ReferenceQuestion
from nnfuzz.check.report import CheckReport
from nnfuzz.check.runtimes import (
    BODY,
    BUNDLED,
    EVALUATOR,
    STANDARD_IMPLEMENTATION,
    Runtime,
    Unavailable,
)
from nnfuzz.operators.draw import Sizes
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.waiver import Waiver, Waivers

STRICT = (EVALUATOR, BODY, STANDARD_IMPLEMENTATION)
"""The authorities: a difference from them without a `Waiver` is a problem."""
PATIENCE = 8
"""Instances drawn per instance that is wanted."""
TINY = Sizes(max_dim=(1, 3, 3, 3, 3, 3, 3), max_numel=1 << 8, max_flops=1 << 16)
SEARCH = 2000
"""Number of instances among which one has to show the difference that a waiver claims."""
AGREES, WAIVED, DIFFERS, UNABLE = "agrees", "waived", "differs", "unable"

Example = tuple[ReferenceQuestion, str]
"""A question, and how an implementation contradicts the answer."""


@dataclass
class Arbitration:
    """How reference implementations agree with the instances of one operator.

    drawn: instances that ran. confirmed: instances with which at least one implementation agreed.
    answers: for each implementation, how often it agrees, is waived, differs, or is unable. waived:
    how often each waiver explained a difference; settled: how often another implementation agreed
    then. unexplained: implementations with their differences that no waiver explains. unable: the
    first instance that each implementation cannot run, with the reason. examples: an example of
    each waiver; None if no instance shows what it claims.
    """

    operator: str
    drawn: int = 0
    confirmed: int = 0
    answers: dict[str, Counter[str]] = field(default_factory=dict)
    waived: Counter[Waiver] = field(default_factory=Counter)
    settled: Counter[Waiver] = field(default_factory=Counter)
    unexplained: list[tuple[str, str]] = field(default_factory=list)
    unable: dict[str, str] = field(default_factory=dict)
    examples: dict[Waiver, Example | None] = field(default_factory=dict)

    def agreed(self, implementation: str) -> int:
        """How often a reference implementation agreed."""
        return self.answers.get(implementation, Counter())[AGREES]

    def problems(self) -> Iterator[str]:
        """Differences from a strict implementation, and waivers without an example."""
        for implementation, text in self.unexplained:
            if implementation in STRICT:
                yield f"{text} ({implementation}), and no waiver is declared there"
        for waiver, example in self.examples.items():
            if example is None:
                yield f"nothing shows that {waiver.implementation} {waiver.claim}"

    def ask(self, question: ReferenceQuestion, runtimes: Mapping[str, Runtime]) -> None:
        """Ask all reference implementations one question."""
        answers = {name: self._asked(question, name, run) for name, run in runtimes.items()}
        confirmed = AGREES in answers.values()
        for name, answer in answers.items():
            self.answers.setdefault(name, Counter())[answer] += 1
            if answer == WAIVED:
                self.waived.update(question.on(name))
                self.settled.update(question.on(name) * confirmed)
        self.drawn += 1
        self.confirmed += confirmed

    def _asked(self, question: ReferenceQuestion, name: str, runtime: Runtime) -> str:
        try:
            text = question.ask(runtime)
        except Unavailable as error:
            self.unable.setdefault(name, f"{question}: {error}")
            return UNABLE
        if not text:
            return AGREES
        if question.on(name):
            return WAIVED
        self.unexplained.append((name, f"{question}: {text}"))
        return DIFFERS


Weighed = tuple[CheckReport, Arbitration]


def arbitrate(
    spec: type[OpSpec],
    rng: random.Random,
    wanted: int,
    waivers: Waivers,
    runtimes: Mapping[str, Runtime] = BUNDLED,
) -> Arbitration:
    """Draw instances until onnx.reference agreed with `wanted` of them, or none can be expected.

    Every signature is tried in turn; every second instance has one that it has agreed with before.
    Where it never does, any implementation counts, after `wanted` instances.
    """
    result = Arbitration(spec.name)
    questions = Questions(spec, rng, draws.SIZES, waivers)
    for tries in range(PATIENCE * wanted):
        served = result.agreed(EVALUATOR)
        if served >= wanted or (not served and result.confirmed >= wanted):
            break
        question = questions.draw_one(good=tries % 2 == 1)
        if question is not None:
            result.ask(question, runtimes)
            if result.agreed(EVALUATOR) > served:
                questions.served()
    return result


def weigh(
    spec: type[OpSpec],
    seed: int,
    wanted: int,
    waivers: Waivers,
    runtimes: Mapping[str, Runtime] = BUNDLED,
    tries: int = 200,
    search: int = SEARCH,
) -> Arbitration:
    """`arbitrate`, and an example of every waiver for the implementations at hand.

    The dice depend on the seed and the operator's name only. tries, search: see `example_of`.
    """
    result = arbitrate(spec, random.Random(f"{seed}:{spec.name}"), wanted, waivers, runtimes)
    for waiver in waivers.of(spec.name):
        if waiver.implementation in runtimes:
            rng = random.Random(f"{seed}:{spec.name}:{waiver.claim}")
            result.examples[waiver] = example_of(
                spec, waiver, rng, waivers, runtimes, tries, search
            )
    return result


def example_of(
    spec: type[OpSpec],
    waiver: Waiver,
    rng: random.Random,
    waivers: Waivers,
    runtimes: Mapping[str, Runtime] = BUNDLED,
    tries: int = 0,
    search: int = SEARCH,
) -> Example | None:
    """An instance that shows a waiver, and nothing but that; None if `search` draws have none.

    tries: so many further instances are drawn in search of a smaller one.
    """
    for sizes in (TINY, draws.SIZES):
        questions = Questions(spec, rng, sizes, waivers, waiver)
        best: Example | None = None
        left = search
        while left > 0:
            left -= 1
            question = questions.draw_one()
            if question is None or (best and question.size >= best[0].size):
                continue
            text = question.shows(runtimes[waiver.implementation])
            if text:
                left = min(left, tries) if best is None else left
                best = question, text
        if best:
            return best
    return None
