"""Pairs: motifs of two operators, made from the specs. An operator reads the result of itself or of
one that it merges with.

The second operator has its own attributes and operands, or shares some with the first. So there are
pairs that a compiler merges or cancels (`OpSpec.merges`), and pairs that it must not cancel.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Protocol

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.motif import Misfit, Motif, Operand, Writer
from nnfuzz.operators.operator import OpSpec

SHARE = 2.0
"""How often pairs are picked, relative to all hand-written motifs together."""
DECLARED, VARIED, PLAIN = 4.0, 0.4, 0.1
"""Relative frequencies of pairs: an operator after one that it merges with (divided by the cube
root of how many operators inherit that declaration); an operator with attributes or several
operands after itself; any other operator after itself."""
SAME = 0.5
"""Probability that the second operator has the operands of the first, and as probably its dtype and
each of its attributes."""
THRICE = 0.25
"""Probability that a third operator follows, of the second one's kind."""
NUMBERS = (0, 1, 2, 2, 3, 7, -1, -2, 0.5, 1.5)
"""Numbers that operands may be."""


class TypeSignature(Protocol):
    """The dtypes of an operator's first input and output (nnfuzz.generate.catalog)."""

    @property
    def first(self) -> DType: ...

    @property
    def output(self) -> DType: ...


Signatures = tuple[TypeSignature, ...]
Table = Mapping[type[OpSpec], Signatures]


def pairs(table: Table, written: float, focus: Sequence[str] = ()) -> list[Motif]:
    """The pairs among some operators. table: their signatures.

    written: weight of all other motifs; 0 means no pairs. focus: every pair has one of these
    operators, and any two of them form a pair; empty: all operators.
    """
    found = list(_pairs(table)) if written else []
    if focus:
        aimed = [
            own for own in found if not {own[0].front.name, own[0].behind.name}.isdisjoint(focus)
        ]
        found = [*aimed, *_among(table, focus)]
    whole = sum(weight for _, _, weight in found) or 1.0
    scale = written * SHARE / whole
    return [pair.motif(dtypes, weight * scale) for pair, dtypes, weight in found]


def _pairs(table: Table) -> Iterator[tuple[Pair, tuple[DType, ...], float]]:
    table = {spec: found for spec, found in table.items() if spec.executes is OpSpec.executes}
    known = {spec.name: spec for spec in table}
    families = Counter(_declares(spec) for spec in table)  # type: ignore[arg-type]
    for spec in table:
        for name in dict.fromkeys((*spec.merges, spec.name)):
            front = known.get(name)
            fitting = _fitting(table[front], table[spec]) if front else ()
            if front and fitting:
                varied = VARIED if spec.declared or spec.arity()[1] > 1 else PLAIN
                declared = DECLARED / math.cbrt(families[_declares(spec)])  # type: ignore[arg-type]
                weight = declared if name in spec.merges else varied
                yield Pair(front, spec), fitting, weight


def _among(table: Table, focus: Sequence[str]) -> Iterator[tuple[Pair, tuple[DType, ...], float]]:
    """Any two different operators of the focus, if their dtypes fit."""
    known = [spec for spec in table if spec.name in focus and spec.executes is OpSpec.executes]
    for front, behind in itertools.permutations(known, 2):
        if fitting := _fitting(table[front], table[behind]):
            yield Pair(front, behind), fitting, DECLARED


@lru_cache(maxsize=1 << 12)
def _fitting(front: Signatures, behind: Signatures) -> tuple[DType, ...]:
    """The input dtypes for which one operator's output fits another operator. Cached, since most
    operators have the same signatures in every catalog."""
    read = {signature.first for signature in behind}
    return tuple(dict.fromkeys(s.first for s in front if s.output in read))


@cache
def _declares(spec: type[OpSpec]) -> type:
    """The class that declares `merges` for an operator."""
    return next(base for base in spec.__mro__ if "merges" in vars(base))


@dataclass(frozen=True)
class Pair:
    """A pair of operators; a call writes the first one, then the second one behind it."""

    front: type[OpSpec]
    behind: type[OpSpec]

    def motif(self, dtypes: tuple[DType, ...], weight: float) -> Motif:
        """The pair as a motif that starts from values of the given dtypes."""
        name = f"{self.front.name}+{self.behind.name}"
        return Motif(name, self, 3, dtypes, self.front.inputs[0].ranks, weight)

    def __call__(self, m: Writer, x: str) -> None:
        made = m(self.front.name, x, *_further(m, self.front, x))
        outputs = made if isinstance(made, tuple) else (made,)
        for _ in range(1 + m.draw.chance(THRICE)):
            outputs = (self._behind(m, x, outputs),)

    def _behind(self, m: Writer, x: str, outputs: tuple[str, ...]) -> str:
        """The output of the second operator; operands and attributes that it shares with the first
        are dropped if they do not fit."""
        operands, attributes = self._shared(m, outputs), self._attributes(m, x, outputs[0])
        try:
            made = m(self.behind.name, *operands, **attributes)
        except Misfit:
            made = m(self.behind.name, outputs[0])
        return made[0] if isinstance(made, tuple) else made

    def _shared(self, m: Writer, outputs: tuple[str, ...]) -> Sequence[Operand]:
        """Operands of the second operator: outputs and operands of the first, or others."""
        if self.behind.variadic and self.behind.arity()[1] > 2 and len(outputs) > 1:
            return m.draw.shuffled(outputs) if m.draw.chance(SAME) else outputs
        rest = m.node(outputs[0]).inputs[1:]
        if rest and len(rest) < self.behind.arity()[1] and m.draw.chance(SAME):
            return (outputs[0], *rest)
        return (outputs[0], *_further(m, self.behind, outputs[0]))

    def _attributes(self, m: Writer, x: str, y: str) -> dict[str, Any]:
        """Attributes of the second operator: some of the first one's, and the dtype of x."""
        op, declared = m.node(y).op, self.behind.declared
        kept = {}
        plain = not _overridden(self.behind)
        if plain and m.type(x).rank == m.type(y).rank and m.draw.chance(SAME):
            names = [name for name in op.attributes if name in declared]
            kept = {name: op.attributes[name] for name in names if m.draw.chance(SAME)}
            kept = {n: v for n, v in kept.items() if v is not None or declared[n] == op.declared[n]}
        output = self.behind.output
        if plain and isinstance(output, str) and output in declared and m.draw.chance(SAME):
            kept[output] = m.type(x).dtype
        return kept


def _overridden(spec: type[OpSpec]) -> bool:
    """Whether an operator draws its attributes by a method of its own."""
    return spec.draw.__func__ is not OpSpec.draw.__func__  # type: ignore[attr-defined]


def _further(m: Writer, spec: type[OpSpec], x: str) -> Sequence[Operand]:
    """A second operand: x again, or a number; empty if the operator draws it."""
    patterns = spec.patterns(spec.arity()[0])
    plain = len(patterns) == 2 and not (patterns[1].weight or patterns[1].fresh)
    if not plain or patterns[1].ranks[0] > 0:
        return ()
    if patterns[1].var == patterns[0].var and m.draw.chance(0.3):
        return (x,)
    return (m.draw.choice(NUMBERS),) if m.draw.chance(0.6) else ()
