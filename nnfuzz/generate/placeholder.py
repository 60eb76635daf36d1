"""Values of a growing graph that nothing computes yet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnfuzz.generate.knowledge import Known, unread
from nnfuzz.ir.types import TensorType
from nnfuzz.spec.operator import Range


@dataclass(frozen=True)
class Placeholder:
    """A value that nothing computes yet: it becomes an input or a weight.

    weight: the consumer expects a parameter. fixed: it must stay a placeholder (indices).
    range: closed one that its elements are drawn from; it becomes a weight then.
    """

    weight: bool = False
    fixed: bool = False
    range: Range | None = None

    def known(self, type_: TensorType) -> Known:
        """The range of its values (nnfuzz.generate.knowledge)."""
        if self.range is not None:
            return Known(self.range)
        known = unread(type_)
        # Of an index no more is sure than that -1 and 0 are admitted, whatever the sizes.
        return replace(known, special=((-1, 0),)) if self.fixed and type_.dtype.is_int else known


FREE = Placeholder()
Plan = list[str | Placeholder]
"""Where the inputs of a new node come from: existing values by name, or fresh placeholders."""
