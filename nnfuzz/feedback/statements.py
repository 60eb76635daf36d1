"""Whether a refusal speaks for an operator signature, whatever attributes and shapes a model has.

"No implementation for Acos(22)" does, and "Resize: only mode nearest is supported" does not. No
list of phrases tells one from the other, but the compiler's earlier refusals do. A statement is a
refusal without the model's own words. It is general if it has refused every model of several
signatures, and none of these signatures ran in another model.
"""

from __future__ import annotations

from nnfuzz.backend.normalise import normalise
from nnfuzz.ir.dtypes import DType
from nnfuzz.triage.general import general_message

CONFIRMED = 2
"""Signatures that every model was refused of with a statement, before one model is enough."""
_DTYPES = tuple(dtype.value for dtype in DType)


class Statements:
    """The statements of one compiler, and the signatures that were refused with each."""

    def __init__(self) -> None:
        self._met: dict[str, set[str]] = {}
        self._refused: dict[str, set[str]] = {}
        self._disproved: set[str] = set()
        self._general: frozenset[str] = frozenset()

    def settle(self) -> None:
        """Updates the statements that `general` accepts; between two calls they do not change."""
        held = {text for text, keys in self._refused.items() if len(keys) >= CONFIRMED}
        self._general = frozenset(held - self._disproved)

    def general(self, key: str, message: str) -> bool:
        """Whether one refusal with this message is enough to call a signature unsupported."""
        return statement(key, message) in self._general

    def met(self, key: str, message: str) -> None:
        """Notes the refusal of a model whose only reason can be a signature."""
        self._met.setdefault(key, set()).add(statement(key, message))

    def refused(self, key: str) -> None:
        """Notes that every model of a signature was refused."""
        for text in self._met.pop(key, ()):
            self._refused.setdefault(text, set()).add(key)

    def ran(self, key: str) -> None:
        """Notes that a model of a signature ran: what others were refused with is not general."""
        self._disproved |= self._met.pop(key, set())


def statement(key: str, message: str) -> str:
    """A refusal without names, numbers, dtypes and the operator of a signature.

    message: of an Answer, so that what the compiler says begins behind the first ": ".
    """
    operator = key.rpartition(":")[2].partition("(")[0]
    return general_message(normalise(message.partition(": ")[2]), _DTYPES, [operator])
