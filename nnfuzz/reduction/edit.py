"""Edits: what a reduction pass proposes, as plain data that crosses process borders."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nnfuzz.base.writing import as_json

ORDER = (
    *("direct", "large", "rewrites", "halves", "neighbourhoods", "outputs", "replacements"),
    *("bypasses", "operands", "sharing", "unfreezing"),
    *("attributes", "dtypes", "numbers", "shrinking", "ranks", "elements", "opsets"),
)
"""Names of the passes, in the order in which they run; nnfuzz.reduction.passes implements them.
Numbers are simplified before dimensions shrink, since of equal numbers any may go. Large tensors
shrink before all else, since every later candidate is cheaper for it."""
MERGED = frozenset({"replacements", "unfreezing", "numbers"})
"""Passes whose edits are independent, so that the engine tries many at once."""
EXPERIMENTS = frozenset({"redrawing", "importing", "readers"})
"""Edits that are no steps of reduction: see nnfuzz.reduction.service."""
READERS = ("Equal", "Cast")
"""Operators that show a value in another dtype: whether it is right, and in the widest of its
kind."""
FOCUS = "the failing element"
"""Stands in an edit's value for [output, index] of the element that is wrong, which the engine
fills in. Where no element is known, such edits are not tried."""


@dataclass(frozen=True)
class Edit:
    """One change of a test case: the pass that knows how to apply it, where, and to what.

    target: a value's name where the pass needs one. value: JSON.
    """

    by: str
    target: str = ""
    value: Any = None

    def focused(self, place: Sequence[object]) -> Edit:
        """A copy of the edit in which `place`, [output, index], replaces the placeholder FOCUS."""
        if not isinstance(self.value, list):
            return self
        return replace(self, value=[place if v == FOCUS else v for v in self.value])

    @property
    def needs_focus(self) -> bool:
        return isinstance(self.value, list) and FOCUS in self.value

    @property
    def key(self) -> str:
        """Equal for equal edits."""
        return json.dumps(as_json(self), sort_keys=True)


Group = tuple[Edit, ...]
"""Edits that are tried together."""


def groups(edits: Sequence[Edit], merge: bool) -> Iterator[Group]:
    """The order in which edits are tried: all at once, halves, quarters ... single ones.

    merge: whether edits go together at all.
    """
    if not merge:
        yield from ((edit,) for edit in edits)
        return
    level = [tuple(edits)] if edits else []
    while level:
        yield from level
        level = [half for group in level if len(group) > 1 for half in _halves(group)]


def _halves(group: Group) -> tuple[Group, Group]:
    middle = (len(group) + 1) // 2
    return group[:middle], group[middle:]
