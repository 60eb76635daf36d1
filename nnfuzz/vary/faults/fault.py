"""The fault of a model that must be refused. Imports nothing heavy."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nnfuzz.operators.draw import Sizes

NODES = 3
"""Operators per model: the check that refuses a model reads one node, or two that are connected."""
SIZES = Sizes(max_dim=(1, 24, 12, 8, 6, 4, 4), max_numel=1 << 10)
"""So small that models can be written out in a report: sizes are of no matter here."""
PLANTED = "fault:"
"""Prefix of a fault's kind in the list of everything that was planted in a model."""
LATE, INTERNAL, NOTHING = "late", "internal", "nothing"
WRONG = ("crash", "timeout", INTERNAL, "accepted")
WORST_FIRST = (*WRONG, LATE, "unsupported", "refused", NOTHING, "ok")
"""Answers to a model that must be refused. late: a clean error, but only when the model is run.
internal: an error from inside of the compiler. nothing: the model without the fault fails as well.
ok: accepted by a compiler that does not promise to refuse anything (Backend.validates)."""


@dataclass(frozen=True)
class Fault:
    """One deliberate fault in a model that is valid without it.

    kind: a name of nnfuzz.vary.faults.catalogue. operator: of the node with the fault; "" for none.
    what: a sentence without its full stop. clause: the clause of the standard that forbids it.
    """

    kind: str
    what: str
    clause: str
    operator: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({self.clause})"

    def words(self) -> list[str]:
        """Words of a message that come from the model: names and values that `what` quotes."""
        return [word for word in re.findall(r"'([^']+)'", self.what) if len(word) > 1]
