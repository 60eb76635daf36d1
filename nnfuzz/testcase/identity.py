"""The identity of a test case: a campaign's index, a probe of one operator, or a foreign model.

`str` writes it, for messages, frames and stored campaigns; `parse_id` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from nnfuzz.base.reading import Unreadable
from nnfuzz.ir.support_key import SupportKey


class _Written:
    """The base of the three kinds of test: each is written as its text."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises: Unreadable if the text names no test, or one of another kind."""
        parsed = parse_id(text)
        if not isinstance(parsed, cls):
            raise Unreadable(f"{text!r} is of another kind")
        return parsed


@dataclass(frozen=True, order=True)
class Numbered(_Written):
    """With the configuration, seed and index determine the test case."""

    seed: int
    index: int

    def __str__(self) -> str:
        return f"test {self.seed}/{self.index}"


@dataclass(frozen=True, order=True)
class Probe(_Written):
    """A model of one operator: the `instance`-th of a signature, the same in every campaign.

    key: the signature with an exporter.
    """

    key: SupportKey
    instance: int
    seed: ClassVar[int] = 0
    index: ClassVar[None] = None

    def __str__(self) -> str:
        return f"probe {self.key} {self.instance}"


@dataclass(frozen=True, order=True)
class ForeignId(_Written):
    """An ONNX model that others have made; its inputs are drawn by the seed, or given."""

    seed: int = 0
    index: ClassVar[None] = None

    def __str__(self) -> str:
        return f"model {self.seed}"


TestId = Numbered | Probe | ForeignId


def parse_id(text: str) -> TestId:
    """The inverse of str. Raises: Unreadable."""
    kind, _, rest = text.partition(" ")
    try:
        if kind == "test":
            seed, index = rest.split("/")
            return Numbered(int(seed), int(index))
        if kind == "probe":
            key, instance = rest.rsplit(" ", 1)
            return Probe(SupportKey.parse(key), int(instance))
        if kind == "model":
            return ForeignId(int(rest))
    except ValueError:
        pass
    raise Unreadable(f"{text!r} names no test: write 'test SEED/INDEX', 'probe KEY NUMBER'")
