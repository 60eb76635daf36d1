"""Arrangements: small random graphs of the operators that a campaign focuses on.

A fusion looks for certain operators that read each other, with usual attributes and with operands
of certain shapes. In random graphs, three given operators hardly ever stand together. So an
arrangement inserts each operator of the focus, and some of them again: in any order, reading the
last value or an earlier one, with usual or random attributes, and with operands that are computed,
shared, numbers, or weights of any shape that broadcasts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import IntExpr
from nnfuzz.ir.graph import Node
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw, NoOptionError
from nnfuzz.operators.motif import Misfit, Motif, Operand, Writer
from nnfuzz.operators.operator import In, OpSpec

T = TypeVar("T")

SHARE = 4.0
"""How often arrangements are picked, relative to all other motifs together."""
MOST_OPERATORS, MOST_AGAIN = 4, 2
"""Most different operators of an arrangement, and most repetitions of them."""
TRIES = 12
"""Nodes that are tried until one fits."""
CHAINED = 0.65
"""Probability that a node reads the last value, not any value of the arrangement."""
PLAIN, FIRST = 0.6, 0.75
"""Probability that a node has plain attributes, and that such an attribute has its first option,
which is the most usual one."""
BACK = 0.7
"""Probability that an operator with a dtype attribute uses a dtype that is already present."""
AGAIN, TWIN = 0.5, 0.2
"""Probability that a second node of an operator has the same further operands as the first one, and
that it is equal to the first one."""
OPERANDS = ("value", "number", "number", "shaped", "shaped", "folded", "any", "any")
"""Where a further operand comes from, by frequency: see `Arrangement`."""
NUMBERS = (0, 1, 1, 2, 3, -1, 0.5, 1.5)
ALIKE, SMALL = 0.5, 5
"""Probability that the first value has at most two different sizes, and the largest such size. A
compiler that confuses two axes is caught only if both have the same size."""
FRESH_RANKS = (2, 4, 3, 1, 4, 2, 3, 5, 0)
"""Ranks of the first value of an arrangement, by frequency."""


class PlainDraw(Draw):
    """Random choices that mostly take the first option."""

    def choice(self, options: Sequence[T]) -> T:
        return options[0] if options and self.chance(FIRST) else super().choice(options)


@dataclass(frozen=True)
class Arrangement:
    """Writes the given operators after a value.

    A further operand is another value of the arrangement, a number, a weight of a shape that
    broadcasts, an operator applied to constants ("folded"), or one drawn by the operator.
    """

    specs: tuple[type[OpSpec], ...]

    def motif(self, weight: float) -> Motif:
        """The arrangement as a motif, which starts from an existing or a new value."""
        dtypes = tuple(dict.fromkeys(d for spec in self.specs for d in spec.inputs[0].dtypes))
        size = min(len(self.specs), MOST_OPERATORS) + 1
        name = "+".join(spec.name for spec in self.specs[:MOST_OPERATORS])
        return Motif(f"<{name}>", self, size, dtypes, (0, 6), weight, self.begin)

    def begin(self, draw: Draw, weights: Mapping[DType, float]) -> TensorType | None:
        """The type of a new value that one of the operators can read; None if no dtype is wanted.

        Rare dtypes are less rare than elsewhere: the square roots of `weights` are used.
        """
        pattern = draw.choice(self.specs).inputs[0]
        each = [math.sqrt(weights[dtype]) for dtype in pattern.dtypes]
        if not any(each):
            return None
        dtype = draw.rng.choices(pattern.dtypes, each)[0]
        lo, hi = pattern.ranks
        rank = min(max(draw.choice(FRESH_RANKS), lo), hi)
        if not draw.chance(ALIKE):
            return draw.tensor(dtype, rank)
        sizes = draw.integer(1, SMALL), draw.integer(1, SMALL)
        return TensorType(dtype, tuple(draw.choice(sizes) for _ in range(rank)))

    def __call__(self, m: Writer, x: str) -> None:
        """Writes the nodes. Raises: Misfit if not every operator fits."""
        values, chosen = [x], m.draw.shuffled(self.specs)[:MOST_OPERATORS]
        again = [m.draw.choice(chosen) for _ in range(m.draw.integer(0, MOST_AGAIN))]
        for left in (chosen, again):
            tries = TRIES
            while left and tries:
                tries -= 1
                spec = m.draw.choice(left)
                if outputs := self._written(m, spec, values):
                    values += outputs
                    left.remove(spec)
        if chosen:
            raise Misfit(f"{chosen[0].name} does not fit")

    def _written(self, m: Writer, spec: type[OpSpec], values: Sequence[str]) -> Sequence[str]:
        """The outputs of a new node that reads one of the values; empty if it does not fit."""
        fitting = [v for v in values if _reads(spec.inputs[0], m.type(v))]
        if not fitting:
            return ()
        name = fitting[-1] if m.draw.chance(CHAINED) else m.draw.choice(fitting)
        operands: Sequence[Operand] = (name, *self._operands(m, spec, name, values))
        attributes = self._attributes(m, spec, name, values)
        earlier = _nodes(m, spec, values)
        if earlier and m.draw.chance(TWIN):
            node = m.draw.choice(earlier)
            operands, attributes = node.inputs, node.op.attributes
        try:
            made = m(spec.name, *operands, **attributes)
        except (Misfit, NoOptionError):
            return ()
        return made if isinstance(made, tuple) else (made,)

    def _attributes(
        self, m: Writer, spec: type[OpSpec], name: str, values: Sequence[str]
    ) -> dict[str, Any]:
        """Attributes to set on a new node: usual values, and a dtype that is already present."""
        chosen: dict[str, Any] = {}
        if m.draw.chance(PLAIN):
            dice = PlainDraw(m.draw.rng, m.draw.sizes)
            op = spec.draw(dice, m.type(name))
            chosen = {n: v for n, v in op.attributes.items() if not _open(v)}
        output = spec.output
        if isinstance(output, str) and output in spec.declared:
            chosen.pop(output, None)
            if m.draw.chance(BACK):
                chosen[output] = m.type(m.draw.choice(values)).dtype
        return chosen

    def _operands(
        self, m: Writer, spec: type[OpSpec], name: str, values: Sequence[str]
    ) -> Sequence[Operand]:
        """The operands after the first; the operator draws missing ones at the end."""
        if (earlier := _nodes(m, spec, values)) and m.draw.chance(AGAIN):
            return m.draw.choice(earlier).inputs[1:]
        operands: list[Operand] = []
        for pattern in spec.patterns(m.draw.integer(*_counts(spec)))[1:]:
            operand = self._operand(m, spec, pattern, name, values)
            if operand is None:
                break
            operands.append(operand)
        return operands

    def _operand(
        self, m: Writer, spec: type[OpSpec], pattern: In, name: str, values: Sequence[str]
    ) -> Operand | None:
        if pattern.index or pattern.fresh:
            return None
        first = m.type(name)
        same = pattern.var == spec.inputs[0].var
        match m.draw.choice(OPERANDS):
            case "value":
                fitting = [v for v in values if _reads(pattern, m.type(v))]
                fitting = [v for v in fitting if not same or m.type(v).dtype is first.dtype]
                return m.draw.choice(fitting) if fitting else None
            case "number" if pattern.ranks[0] == 0:
                return m.draw.choice(NUMBERS)
            case "shaped" if same and pattern.ranks[0] < 2:
                return m.weight(name, *m.draw.choice(_shapes(first)))
            case "folded" if same and pattern.ranks[0] == 0:
                return self._folded(m, first.dtype)
        return None

    def _folded(self, m: Writer, dtype: DType) -> str | None:
        """The result of one of the operators applied to constants; None if none fits."""
        constant = m.shared(TensorType(dtype, m.draw.choice(((), (1,)))), m.draw.choice((1, 1, 2)))
        for spec in m.draw.shuffled(self.specs):
            if _counts(spec)[0] <= 2 and _reads(spec.inputs[0], m.type(constant)):
                try:
                    made = m(spec.name, *(constant,) * _counts(spec)[0])
                except (Misfit, NoOptionError):
                    continue
                first = made[0] if isinstance(made, tuple) else made
                if m.type(first).dtype is dtype:
                    return str(first)
        return None


def arrangements(table: Sequence[type[OpSpec]], focus: Sequence[str], others: float) -> list[Motif]:
    """The arrangement of the operators in `focus`; empty without a focus. others: weight of all
    other motifs together."""
    specs = tuple(s for s in table if s.name in focus and s.executes is OpSpec.executes)
    return [Arrangement(specs).motif(SHARE * (others or 1.0))] if specs else []


def _nodes(m: Writer, spec: type[OpSpec], values: Sequence[str]) -> list[Node]:
    """The nodes of an operator that compute one of `values`, other than the first."""
    nodes = [m.node(name) for name in values[1:]]
    return [node for node in nodes if type(node.op) is spec]


def _reads(pattern: In, type_: TensorType) -> bool:
    lo, hi = pattern.ranks
    return type_.dtype in pattern.dtypes and lo <= type_.rank <= hi


def _counts(spec: type[OpSpec]) -> tuple[int, int]:
    """The least number of operands, and the most that an arrangement specifies."""
    lo, hi = spec.arity()
    return lo, min(hi, lo + 1)


def _open(value: Any) -> bool:
    """Whether an attribute value is still symbolic."""
    parts = value if isinstance(value, tuple) else (value,)
    return any(isinstance(part, IntExpr) for part in parts)


def _shapes(first: TensorType) -> Sequence[tuple[Any, ...]]:
    """Shapes of a second operand: equal to the first operand's, a row, a column, one number per
    channel, or with one axis more."""
    shape = first.shape
    rank, rest = len(shape), shape[1:]
    return [
        *(shape, (1,) * rank, (1, *shape), (2, *shape), (1,) * (rank + 1)),
        *((shape[-1:], (1, *shape[-1:]), (*shape[:-1], 1)) if rank else ()),
        *((rest[:1], (*rest[:1], *(1,) * (rank - 2))) if rank > 2 else ()),
    ]
