"""What is wrong with a model that must be refused. Imports nothing heavy."""

from __future__ import annotations

import re
from dataclasses import dataclass

PLANTED = "fault:"
"""Before the kind of a fault where it stands among what was planted in a model."""
LATE, INTERNAL, NOTHING = "late", "internal", "nothing"
WRONG = ("crash", "timeout", INTERNAL, "accepted")
WORST_FIRST = (*WRONG, LATE, "unsupported", "refused", NOTHING, "ok")
"""Answers to a model that must be refused. late: a clean error, but only when the model is run;
internal: an error from the inside of the compiler; nothing: the model without the fault gets no
further; ok: taken by what does not promise to refuse anything (Backend.validates)."""


@dataclass(frozen=True)
class Fault:
    """One deliberate fault in a model that is valid without it.

    kind: a name of nnfuzz.invalid.catalogue. operator: of the node where it is, "" for none. what:
    a sentence without its full stop. clause: of the standard that forbids it.
    """

    kind: str
    what: str
    clause: str
    operator: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({self.clause})"

    def words(self) -> list[str]:
        """What of a compiler's message is the model's: names and values that `what` quotes."""
        return [word for word in re.findall(r"'([^']+)'", self.what) if len(word) > 1]
