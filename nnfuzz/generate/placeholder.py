"""Values of a growing graph that nothing computes yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnfuzz.generate.knowledge import ValueRange, unread
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import In, Range

TOGETHER = 0.65
"""Probability that all parameters of a node (`In.weight`) are constants that nothing computes."""


@dataclass(frozen=True)
class Placeholder:
    """A value that nothing computes yet: it becomes an input or a weight.

    weight: the consumer expects a parameter. fixed: it must stay a placeholder (indices).
    range: closed one that its elements are drawn from; it becomes a weight then.
    constant: it becomes a weight, as do the other parameters of its node. given: it becomes an
    input if nothing computes it.
    """

    weight: bool = False
    fixed: bool = False
    range: Range | None = None
    constant: bool = False
    given: bool = False

    @property
    def closed(self) -> bool:
        """Whether nothing may compute it."""
        return self.fixed or self.constant

    def known(self, type_: TensorType) -> ValueRange:
        """The range of its values (nnfuzz.generate.knowledge)."""
        if self.range is not None:
            return ValueRange(self.range)
        known = unread(type_)
        if not (self.fixed and type_.dtype.is_int):
            return known
        # Of an index no more is sure than that -1 and 0 are admitted, whatever the sizes.
        return known.over(known.range, ((-1, 0),))


def placeholders(
    draw: Draw, patterns: Sequence[In], constant: bool | None = None
) -> list[Placeholder]:
    """What the inputs of a new node start as, by their patterns. constant: drawn if it is None."""
    if constant is None:
        constant = any([p.weight for p in patterns]) and draw.chance(TOGETHER)
    return [Placeholder(p.weight, p.fresh, constant=constant and p.weight) for p in patterns]


FREE, INDEX = Placeholder(), Placeholder(fixed=True)
Plan = list[str | Placeholder]
"""Where the inputs of a new node come from: existing values by name, or fresh placeholders."""
