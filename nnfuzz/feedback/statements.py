"""Whether a refusal holds for an operator signature with any attributes and shapes.

"No implementation for Acos(22)" does, and "Resize: only mode nearest is supported" does not. No
list of phrases distinguishes the two, but the compiler's earlier refusals do. A statement is a
refusal without the model's own words. It is general if it has refused every model of several
signatures, and none of these signatures ran in another model.
"""

from __future__ import annotations

import re

from nnfuzz.backend.normalise import normalise
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.triage.pattern import general_message

CONFIRMED = 2
"""A statement must have refused every model of so many signatures; then one model is enough."""
_DTYPES = tuple(dtype.value for dtype in DType)


class Statements:
    """The statements of one compiler, and the signatures that were refused with each."""

    def __init__(self) -> None:
        self._pending: dict[SupportKey, set[str]] = {}
        self._confirmed: dict[str, set[SupportKey]] = {}
        self._disproved: set[str] = set()
        self._general: frozenset[str] = frozenset()

    def settle(self) -> None:
        """Updates the statements that `general` accepts; between two calls they do not change."""
        often = {text for text, keys in self._confirmed.items() if len(keys) >= CONFIRMED}
        self._general = frozenset(often - self._disproved)

    def general(self, key: SupportKey, message: str) -> bool:
        """Whether one refusal with this message is enough to call a signature unsupported."""
        return refusal_statement(key, message) in self._general

    def about_operator(self, key: SupportKey, message: str) -> bool:
        """Whether a general refusal names the operator of a signature, and neither a dtype nor a
        number, which may be a version.
        """
        words = set(re.findall(r"\w+", message.partition(": ")[2]))
        specific = {word for word in words if word in _DTYPES or any(map(str.isdigit, word))}
        about = key.operator in words and not specific - {key.operator}
        return about and self.general(key, message)

    def add(self, key: SupportKey, message: str) -> None:
        """Records the refusal of a model whose only reason can be a signature."""
        self._pending.setdefault(key, set()).add(refusal_statement(key, message))

    def confirm(self, key: SupportKey) -> None:
        """Records that every model of a signature was refused."""
        for text in self._pending.pop(key, ()):
            self._confirmed.setdefault(text, set()).add(key)

    def disprove(self, key: SupportKey) -> None:
        """Records that a model of a signature ran, so that its refusals were not general."""
        self._disproved |= self._pending.pop(key, set())


def refusal_statement(key: SupportKey, message: str) -> str:
    """A refusal without names, numbers, dtypes and the operator of a signature.

    message: of a ProbeAnswer, so that the compiler's own text begins behind the first ": ".
    """
    text = normalise(message.partition(": ")[2])
    return general_message(text, _DTYPES, [key.operator])
