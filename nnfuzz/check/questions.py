"""Questions to reference implementations: instances of one operator with inputs and an answer."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nnfuzz.backend.target import DIRECT
from nnfuzz.check import instances as draws
from nnfuzz.check import reference_implementations as references
from nnfuzz.check.agreement import Expected
from nnfuzz.check.instances import OpInstance, SignatureTypes
from nnfuzz.check.runtimes import Runtime, Unavailable
from nnfuzz.check.versions import legal_opsets
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.draw import Draw, Sizes
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.waiver import Waiver, Waivers

Kind = tuple[SignatureTypes, list[int]]
"""An operator signature, and the opsets at which it is legal."""


@dataclass(frozen=True)
class ReferenceQuestion:
    """An instance with inputs, its lowering at an opset, and `torch`'s results for it.

    waivers: those declared for reference implementations there.
    """

    instance: OpInstance
    opset: int
    arrays: references.Arrays
    expected: Expected
    waivers: tuple[Waiver, ...] = ()

    def __str__(self) -> str:
        return f"{self.instance}, opset {self.opset}"

    def ask(self, runtime: Runtime) -> str:
        """How the runtime contradicts `torch`; empty if it does not. Raises: Unavailable."""
        op, types = self.instance.op, self.instance.types
        model = references.one_node(self.instance, op.type_transfer(*types), self.opset)
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

    def on(self, implementation: str) -> list[Waiver]:
        """The waivers that are declared for a reference implementation there."""
        return [d for d in self.waivers if d.implementation == implementation]


class Questions:
    """Questions on one operator, of all signatures in turn.

    waivers: all that is declared. waiver: only where nothing but that is declared of its
    implementation.
    """

    def __init__(
        self,
        spec: type[OpSpec],
        rng: random.Random,
        sizes: Sizes,
        waivers: Waivers,
        waiver: Waiver | None = None,
    ) -> None:
        self.spec, self.draw, self.waiver = spec, Draw(rng, sizes), waiver
        self.waivers = waivers
        self.values = np.random.default_rng(rng.getrandbits(32))
        opsets = [(s, legal_opsets(spec, s)) for s in spec.signatures()]
        self.opsets = [(s, _below(o, waiver)) for s, o in opsets if _below(o, waiver)]
        if waiver and waiver.dtypes:
            chosen = [(s, o) for s, o in self.opsets if _dtypes(s) & {*waiver.dtypes}]
            self.opsets = chosen or self.opsets
        self.rounds: Iterator[Kind] = iter(())
        self.last: Kind | None = None
        self.good: list[Kind] = []

    def served(self) -> None:
        """Record that the last question could be answered."""
        if self.last is not None and self.last not in self.good:
            self.good.append(self.last)

    def draw_one(self, good: bool = False) -> ReferenceQuestion | None:
        """The next question, None if it has no solution. good: of a kind that had an answer."""
        if not self.opsets:
            return None
        self.last = self.draw.choice(self.good) if good and self.good else self._next()
        signature, opsets = self.last
        lo, hi = self.spec.inputs[0].ranks
        instance = draws.solved(self.spec, signature, self.draw.integer(lo, min(hi, 5)), self.draw)
        opset = self.draw.choice(opsets)
        if instance is None or instance.op.refusal(DIRECT, opset, *instance.types):
            return None
        known = tuple(self.waivers.covering(instance.op, opset, instance.types))
        if not self._wanted(known):
            return None
        arrays, inside = references.inputs_for(instance, self.values)
        if not inside:
            return None
        expected = Expected.of(instance.op, arrays)
        return ReferenceQuestion(instance, opset, arrays, expected, known)

    def _wanted(self, known: Sequence[Waiver]) -> bool:
        sought = self.waiver
        return sought is None or [
            d for d in known if d.implementation == sought.implementation
        ] == [sought]

    def _next(self) -> Kind:
        kind = next(self.rounds, None)
        if kind is None:
            self.rounds = iter(self.draw.shuffled(self.opsets))
            kind = next(self.rounds)
        return kind


def _below(opsets: list[int], waiver: Waiver | None) -> list[int]:
    return [o for o in opsets if not (waiver and waiver.below and o >= waiver.below)]


def _dtypes(signature: SignatureTypes) -> set[DType]:
    binding, output = signature
    return {*binding.values(), output}
