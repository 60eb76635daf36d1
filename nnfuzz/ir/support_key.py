"""What a compiler or an exporter may lack: an operator with its dtypes, or an edge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache


@dataclass(frozen=True)
class SupportKey:
    """An operator signature or an edge between two operators, for one exporter or for all.

    exporter: empty if the key holds for every exporter. operator: the operator's name; of an edge
    "Relu->Conv". dtypes: of a signature "(float16)->float16"; of an edge "(float32)"; empty if the
    key stands for all dtypes. `str` writes a key as "direct:Add(float16)->float16", `parse` reads
    it, and keys sort as they are written.
    """

    exporter: str
    operator: str
    dtypes: str

    @classmethod
    @lru_cache(maxsize=1 << 16)
    def parse(cls, text: str) -> SupportKey:
        """The inverse of `str`."""
        exporter, _, rest = text.rpartition(":")
        operator, parenthesis, dtypes = rest.partition("(")
        return cls(exporter, operator, parenthesis + dtypes)

    @classmethod
    def of_signature(cls, operator: str, inputs: Iterable[str], output: str) -> SupportKey:
        """The key of an operator by the dtypes of its type variables and of its output."""
        return cls("", operator, f"({','.join(inputs)})->{output}")

    def __str__(self) -> str:
        return self._text

    def __lt__(self, other: SupportKey) -> bool:
        return self._text < other._text

    def __hash__(self) -> int:
        return hash(self._text)

    @cached_property
    def _text(self) -> str:
        mark = f"{self.exporter}:" if self.exporter else ""
        return f"{mark}{self.operator}{self.dtypes}"

    @cached_property
    def signature(self) -> SupportKey:
        """The key for every exporter."""
        return self.with_exporter("")

    @cached_property
    def any_dtypes(self) -> SupportKey:
        """The key for all dtypes."""
        return SupportKey(self.exporter, self.operator, "") if self.dtypes else self

    @property
    def is_edge(self) -> bool:
        """Whether the key names two operators and not one."""
        return "->" in self.operator

    def with_exporter(self, exporter: str) -> SupportKey:
        """The key for one exporter alone; for all of them if the name is empty."""
        if exporter == self.exporter:
            return self
        return SupportKey(exporter, self.operator, self.dtypes)


def operators_in(texts: Iterable[str]) -> set[str]:
    """The operators that written signatures name."""
    return {SupportKey.parse(text).operator for text in texts}
