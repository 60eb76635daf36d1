"""The fault of a model that must be refused. This module imports nothing heavy."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nnfuzz.operators.draw import Sizes

NODES = 3
"""Operators per model. A compiler's check of a model reads one node, or two connected nodes."""
SIZES = Sizes(max_dim=(1, 24, 12, 8, 6, 4, 4), max_numel=1 << 10)
"""Small sizes, so that a report can show a model's numbers; faults do not depend on sizes."""
PLANTED = "fault:"
"""Prefix of a fault's kind in the list of a test's variations."""
LATE, INTERNAL, NOTHING = "late", "internal", "nothing"
WRONG = ("crash", "timeout", INTERNAL, "accepted")
WORST_FIRST = (*WRONG, LATE, "unsupported", "refused", NOTHING, "ok")
"""Answers to a model that must be refused, worst first. late: a clean error, but only when the
model is run. internal: an error from inside the compiler. nothing: the model without the fault
fails, too. ok: accepted by a compiler that does not promise to refuse anything
(`Backend.validates`)."""


@dataclass(frozen=True)
class Fault:
    """One deliberate fault in an otherwise valid model.

    kind: a name in nnfuzz.vary.faults.catalogue. what: a sentence without its full stop. clause: of
    the standard, which forbids the fault. operator: of the node with the fault; "" for none.
    """

    kind: str
    what: str
    clause: str
    operator: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({self.clause})"

    def words(self) -> list[str]:
        """Names and values that `what` quotes, to be searched for in an error message."""
        return [word for word in re.findall(r"'([^']+)'", self.what) if len(word) > 1]
