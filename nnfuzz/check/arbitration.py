"""How often authorities on ONNX agree with an operator's `torch`, and where they are known not to.

`arbitrate` draws solved instances until onnx.reference has agreed with so many of them, and asks
every other authority about the same ones. `example_of` looks for a small instance that shows what a
`Dispute` claims; `weigh` does both.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nnfuzz.check import instances as draws
from nnfuzz.check.questions import Question, Questions
from nnfuzz.check.report import CheckReport
from nnfuzz.check.runtimes import BODY, EVALUATOR, READING, STANDARD, Runtime, Unavailable
from nnfuzz.spec.dispute import Dispute, Disputes
from nnfuzz.spec.draw import Sizes
from nnfuzz.spec.operator import OpSpec

STRICT = (EVALUATOR, BODY, READING)
"""Authorities that say what is right: what they differ in without a `Dispute` is a problem."""
PATIENCE = 8
"""Instances drawn per instance that is wanted."""
TINY = Sizes(max_dim=(1, 3, 3, 3, 3, 3, 3), max_numel=1 << 8, max_flops=1 << 16)
SEARCH = 2000
"""Instances among which one has to show what a dispute claims."""
AGREES, DISPUTED, DIFFERS, UNABLE = "agrees", "disputed", "differs", "unable"

Example = tuple[Question, str]
"""A question, and how an authority contradicts the answer."""


@dataclass
class Arbitration:
    """What authorities said of the instances of one operator.

    drawn: instances that ran. confirmed: those with which one authority agreed at least.
    answers: per authority, how often it agrees, is disputed, differs, or is unable. shown: how
    often which dispute explained a difference; settled: how often another authority agreed then.
    unexplained: differences without a dispute, with the authority. helpless: per authority, the
    first instance that it can not run, and why. examples: of the disputes on the authorities that
    were asked, None where no instance shows what is claimed.
    """

    operator: str
    drawn: int = 0
    confirmed: int = 0
    answers: dict[str, Counter[str]] = field(default_factory=dict)
    shown: Counter[Dispute] = field(default_factory=Counter)
    settled: Counter[Dispute] = field(default_factory=Counter)
    unexplained: list[tuple[str, str]] = field(default_factory=list)
    helpless: dict[str, str] = field(default_factory=dict)
    examples: dict[Dispute, Example | None] = field(default_factory=dict)

    def agreed(self, authority: str) -> int:
        return self.answers.get(authority, Counter())[AGREES]

    def problems(self) -> Iterator[str]:
        """What an authority on the standard denies, and declared disputes that do not show."""
        for authority, text in self.unexplained:
            if authority in STRICT:
                yield f"{text} ({authority}), and no dispute is declared there"
        for dispute, example in self.examples.items():
            if example is None:
                yield f"nothing shows that {dispute.authority} {dispute.claim}"

    def take(self, question: Question, runtimes: Mapping[str, Runtime]) -> None:
        """Ask all authorities one question."""
        answers = {name: self._asked(question, name, run) for name, run in runtimes.items()}
        confirmed = AGREES in answers.values()
        for name, answer in answers.items():
            self.answers.setdefault(name, Counter())[answer] += 1
            if answer == DISPUTED:
                self.shown.update(question.on(name))
                self.settled.update(question.on(name) * confirmed)
        self.drawn += 1
        self.confirmed += confirmed

    def _asked(self, question: Question, name: str, runtime: Runtime) -> str:
        try:
            text = question.ask(runtime)
        except Unavailable as error:
            self.helpless.setdefault(name, f"{question}: {error}")
            return UNABLE
        if not text:
            return AGREES
        if question.on(name):
            return DISPUTED
        self.unexplained.append((name, f"{question}: {text}"))
        return DIFFERS


Weighed = tuple[CheckReport, Arbitration]


def arbitrate(
    spec: type[OpSpec],
    rng: random.Random,
    wanted: int,
    disputes: Disputes,
    runtimes: Mapping[str, Runtime] = STANDARD,
) -> Arbitration:
    """Draw instances until onnx.reference agreed with `wanted` of them, or none can be expected.

    Every signature is tried in turn; every second instance has one that it has agreed with before.
    Where it never does, any authority counts, after `wanted` instances.
    """
    result = Arbitration(spec.name)
    questions = Questions(spec, rng, draws.SIZES, disputes)
    for tries in range(PATIENCE * wanted):
        served = result.agreed(EVALUATOR)
        if served >= wanted or (not served and result.confirmed >= wanted):
            break
        question = questions.draw_one(good=tries % 2 == 1)
        if question is not None:
            result.take(question, runtimes)
            if result.agreed(EVALUATOR) > served:
                questions.served()
    return result


def weigh(
    spec: type[OpSpec],
    seed: int,
    wanted: int,
    disputes: Disputes,
    runtimes: Mapping[str, Runtime] = STANDARD,
    tries: int = 200,
    search: int = SEARCH,
) -> Arbitration:
    """`arbitrate`, and an example of every dispute on the authorities at hand.

    The dice depend on the seed and the operator's name only. tries, search: see `example_of`.
    """
    result = arbitrate(spec, random.Random(f"{seed}:{spec.name}"), wanted, disputes, runtimes)
    for dispute in disputes.of(spec.name):
        if dispute.authority in runtimes:
            rng = random.Random(f"{seed}:{spec.name}:{dispute.claim}")
            result.examples[dispute] = example_of(
                spec, dispute, rng, disputes, runtimes, tries, search
            )
    return result


def example_of(
    spec: type[OpSpec],
    dispute: Dispute,
    rng: random.Random,
    disputes: Disputes,
    runtimes: Mapping[str, Runtime] = STANDARD,
    tries: int = 0,
    search: int = SEARCH,
) -> Example | None:
    """An instance that shows a dispute, and nothing but that; None if `search` draws have none.

    tries: so many further instances are drawn in search of a smaller one.
    """
    for sizes in (TINY, draws.SIZES):
        questions = Questions(spec, rng, sizes, disputes, dispute)
        best: Example | None = None
        left = search
        while left > 0:
            left -= 1
            question = questions.draw_one()
            if question is None or (best and question.size >= best[0].size):
                continue
            text = question.shows(runtimes[dispute.authority])
            if text:
                left = min(left, tries) if best is None else left
                best = question, text
        if best:
            return best
    return None
