"""How often authorities on ONNX agree with an operator's `torch`, and where they are known not to.

`arbitrate` draws solved instances until onnx.reference has agreed with so many of them, and asks
every other authority about the same ones. `example_of` looks for the smallest instance that shows
what a `Dispute` claims.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from nnfuzz.check import authorities as auth
from nnfuzz.check import instances as draws
from nnfuzz.check.agreement import Expected
from nnfuzz.check.instances import Instance, Signature
from nnfuzz.check.legality import legal_opsets
from nnfuzz.check.runtimes import BODY, EVALUATOR, READING, STANDARD, Runtime, Unavailable
from nnfuzz.spec.dispute import Dispute
from nnfuzz.spec.draw import Draw, Sizes
from nnfuzz.spec.operator import OpSpec

STRICT = (EVALUATOR, BODY, READING)
"""Authorities that say what is right: what they differ in without a `Dispute` is a problem."""
PATIENCE = 8
"""Instances drawn per instance that is wanted."""
TINY = Sizes(max_dim=(1, 3, 3, 3, 3, 3, 3), max_numel=1 << 8, max_flops=1 << 16)
SEARCH = 2000
"""Instances among which one has to show what a dispute claims."""
AGREES, DISPUTED, DIFFERS, UNABLE = "agrees", "disputed", "differs", "unable"
ANSWERS = (AGREES, DISPUTED, DIFFERS, UNABLE)


@dataclass(frozen=True)
class Question:
    """An instance with inputs and its lowering at an opset, and what `torch` makes of it."""

    instance: Instance
    opset: int
    arrays: auth.Arrays
    expected: Expected

    def ask(self, runtime: Runtime) -> str:
        """How the runtime contradicts `torch`; empty if it does not. Raises: Unavailable."""
        op, types = self.instance.op, self.instance.types
        model = auth.one_node(self.instance, op.type_transfer(*types), self.opset)
        try:
            return self.expected.contradicts(runtime(model, self.arrays))
        except Unavailable:
            raise
        except Exception as error:
            return f"raises {type(error).__name__}: {str(error)[:200]}"

    def shows(self, runtime: Runtime) -> str:
        """How the runtime contradicts `torch`; empty also where it can not run."""
        try:
            return self.ask(runtime)
        except Unavailable:
            return ""

    @property
    def size(self) -> int:
        """Elements of all inputs."""
        return sum(array.size for array in self.arrays)

    def disputes(self, authority: str) -> list[Dispute]:
        """What is declared of an authority there."""
        return _disputes(self.instance, self.opset, authority)


@dataclass
class Arbitration:
    """What authorities said of the instances of one operator.

    drawn: instances that ran. confirmed: those with which one authority agreed at least.
    answers: per authority, how often which of ANSWERS. shown: how often which dispute explained a
    difference. unexplained: differences without a dispute, by authority.
    """

    operator: str
    drawn: int = 0
    confirmed: int = 0
    answers: dict[str, Counter[str]] = field(default_factory=dict)
    shown: Counter[Dispute] = field(default_factory=Counter)
    unexplained: list[tuple[str, str]] = field(default_factory=list)

    def agreed(self, authority: str) -> int:
        return self.answers.get(authority, Counter())[AGREES]

    def problems(self) -> Iterator[str]:
        """Differences that an authority on the standard has without a declared dispute."""
        for authority, text in self.unexplained:
            if authority in STRICT:
                yield f"{text} ({authority}), and nothing is declared `untrusted` there"

    def take(self, question: Question, runtimes: Mapping[str, Runtime]) -> None:
        """Ask all authorities one question."""
        answers = {name: self._asked(question, name, run) for name, run in runtimes.items()}
        for name, answer in answers.items():
            self.answers.setdefault(name, Counter())[answer] += 1
        self.drawn += 1
        self.confirmed += AGREES in answers.values()

    def _asked(self, question: Question, name: str, runtime: Runtime) -> str:
        try:
            text = question.ask(runtime)
        except Unavailable:
            return UNABLE
        if not text:
            return AGREES
        disputes = question.disputes(name)
        self.shown.update(disputes)
        if disputes:
            return DISPUTED
        self.unexplained.append((name, f"{question.instance}, opset {question.opset}: {text}"))
        return DIFFERS


def arbitrate(
    spec: type[OpSpec],
    rng: random.Random,
    wanted: int,
    runtimes: Mapping[str, Runtime] = STANDARD,
) -> Arbitration:
    """Draw instances until onnx.reference agreed with `wanted` of them, or none can be expected.

    Every signature is tried in turn; every second instance has one that it has agreed with before.
    Where it never does, any authority counts, after `wanted` instances.
    """
    result = Arbitration(spec.name)
    source = _Source(spec, rng, draws.SIZES)
    for tries in range(PATIENCE * wanted):
        served = result.agreed(EVALUATOR)
        if served >= wanted or (not served and result.confirmed >= wanted):
            break
        question = source.question(tries % 2 == 1)
        if question is not None:
            result.take(question, runtimes)
            if result.agreed(EVALUATOR) > served:
                source.served()
    return result


def example_of(
    spec: type[OpSpec],
    dispute: Dispute,
    rng: random.Random,
    runtimes: Mapping[str, Runtime] = STANDARD,
    tries: int = 0,
) -> tuple[Question, str] | None:
    """An instance that shows a dispute, and nothing but that, with the difference; None for none.

    tries: so many further instances are drawn in search of a smaller one.
    """
    for sizes in (TINY, draws.SIZES):
        source = _Source(spec, rng, sizes, dispute)
        shown: list[tuple[int, int, Question, str]] = []
        for i in range(SEARCH + tries):
            if i >= (shown[0][1] + tries if shown else SEARCH):
                break
            question = source.question(only=dispute)
            if question is None:
                continue
            text = question.shows(runtimes[dispute.authority])
            if text:
                shown.append((question.size, i, question, text))
        if shown:
            return min(shown, key=lambda entry: entry[:2])[2:]
    return None


class _Source:
    """Questions on one operator, of all signatures in turn."""

    def __init__(
        self, spec: type[OpSpec], rng: random.Random, sizes: Sizes, dispute: Dispute | None = None
    ) -> None:
        self.spec, self.draw = spec, Draw(rng, sizes)
        self.values = np.random.default_rng(rng.getrandbits(32))
        opsets = [(s, legal_opsets(spec, s)) for s in spec.signatures()]
        self.opsets = [(s, _below(o, dispute)) for s, o in opsets if _below(o, dispute)]
        if dispute and dispute.dtypes:
            chosen = [(s, o) for s, o in self.opsets if _dtypes(s) & {*dispute.dtypes}]
            self.opsets = chosen or self.opsets
        self.rounds: Iterator[tuple[Signature, list[int]]] = iter(())
        self.last: tuple[Signature, list[int]] | None = None
        self.good: list[tuple[Signature, list[int]]] = []

    def served(self) -> None:
        """The last question was of a good kind."""
        if self.last is not None and self.last not in self.good:
            self.good.append(self.last)

    def question(self, good: bool = False, only: Dispute | None = None) -> Question | None:
        """The next one, if it could be solved.

        good: of a kind that is known to be good. only: where nothing else is declared of its
        authority.
        """
        self.last = self.draw.choice(self.good) if good and self.good else self._next()
        signature, opsets = self.last
        lo, hi = self.spec.inputs[0].ranks
        instance = draws.solved(self.spec, signature, self.draw.integer(lo, min(hi, 5)), self.draw)
        opset = self.draw.choice(opsets)
        if instance is None or (only and _disputes(instance, opset, only.authority) != [only]):
            return None
        arrays, inside = auth.inputs_for(instance, self.values)
        if not inside:
            return None
        expected = Expected.of(instance.op, arrays)
        return Question(instance, opset, arrays, expected)

    def _next(self) -> tuple[Signature, list[int]]:
        found = next(self.rounds, None)
        if found is None:
            self.rounds = iter(self.draw.shuffled(self.opsets))
            found = next(self.rounds)
        return found


def _disputes(instance: Instance, opset: int, authority: str) -> list[Dispute]:
    found = instance.op.disputes(opset, *instance.types)
    return [d for d in found if d.authority == authority]


def _below(opsets: list[int], dispute: Dispute | None) -> list[int]:
    return [o for o in opsets if not (dispute and dispute.below and o >= dispute.below)]


def _dtypes(signature: Signature) -> set:
    binding, output = signature
    return {*binding.values(), output}
