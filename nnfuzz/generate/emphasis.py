"""Frequencies that guidance changes in generation; see nnfuzz.feedback.guidance."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nnfuzz.ir.view import GraphView


@dataclass(frozen=True)
class KeptCase:
    """The graph of an earlier test case to mutate. exporter: whose limits it keeps."""

    index: int
    exporter: str
    graph: GraphView


@dataclass(frozen=True)
class Emphasis:
    """Factors on relative frequencies, by name; 1 where there is none. JSON-able.

    planted: factor on the number of motifs per graph. mutated: share of the test cases that change
    one of `kept` in one or two places.
    """

    operators: Mapping[str, float] = field(default_factory=dict)
    motifs: Mapping[str, float] = field(default_factory=dict)
    dtypes: Mapping[str, float] = field(default_factory=dict)
    planted: float = 1.0
    mutated: float = 0.0
    kept: tuple[KeptCase, ...] = ()

    def mutates(self, seed: int, index: int) -> bool:
        """Whether the test case of an index is made from a kept one."""
        draw = zlib.crc32(f"{seed}/{index}/kept".encode()) / 2**32
        return bool(self.kept) and draw < self.mutated

    def of(self, seed: int, index: int | None) -> Emphasis:
        """The part on which the test case of an index depends; empty for a probe (None)."""
        if index is None:
            return NO_EMPHASIS
        return self if self.mutates(seed, index) else replace(self, kept=(), mutated=0.0)


NO_EMPHASIS = Emphasis()
