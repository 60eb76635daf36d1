"""The contract of a variation: a feature that makes a test case other than plain.

A test case is made in stages; a variation overrides the hooks of the stages that it changes, and
the other hooks return their argument. Randomness comes from `rng`, which all stages of a test
share, or from a named stream (`VariedTest.stream`), whose draws change no others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engine import Generated, Kept
from nnfuzz.generate.turns import MotifTurn
from nnfuzz.inputs.search import Found
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.support_key import SupportKey

if TYPE_CHECKING:
    from nnfuzz.testcase.case import CaseConfig, TestCase


VERIFIED = 100
"""The graph of one test in so many is verified."""


class NotVaried(Exception):
    """A test case that consists of a variation cannot be made; the message says why."""


@dataclass(frozen=True)
class VariedTest:
    """The test case that is being made.

    index: None for a probe (a test of one operator). config: for one exporter at one opset.
    catalog: the operators that the graph may have.
    """

    seed: int
    index: int | None
    config: CaseConfig
    catalog: Catalog
    _streams: dict[str, random.Random] = field(default_factory=dict)

    def stream(self, name: str) -> random.Random:
        """Random numbers that depend only on the seed, the index and the stream's name."""
        if name not in self._streams:
            self._streams[name] = random.Random(f"{self.seed}/{self.index}/{name}")
        return self._streams[name]

    def check(self, graph: Graph) -> None:
        """Verify a graph in one of VERIFIED tests; in others, the moves that made it are trusted.

        Raises: GraphError.
        """
        if (self.index or 0) % VERIFIED == 0:
            graph.verify()

    @property
    def turn(self) -> int:
        """The number of tests of the same exporter before this one."""
        return (self.index or 0) // self.config.among


@dataclass(frozen=True)
class GraphPlan:
    """How the graph of a test case will be generated.

    corpus: graphs, one of which generation starts from. turns: motifs to insert first. symbolic:
    whether the graph must have a symbolic dimension. variations: names of those applied so far.
    """

    config: GenerateConfig
    corpus: Sequence[Kept] = ()
    turns: Sequence[MotifTurn] = ()
    symbolic: bool = False
    variations: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaseDraft:
    """A test case that has a graph, and later values and a model.

    found: inputs, weights and values; empty before the search. traced: the inputs with which an
    exporter runs the graph. plain: the model before it was rewritten; empty if it was not.
    variations: names of those that were applied.
    """

    graph: Graph
    exporter: str
    found: Found = field(default_factory=lambda: Found({}, {}, {}, 0, 0, 0.0))
    traced: Mapping[str, np.ndarray] = field(default_factory=dict)
    model: bytes = b""
    plain: bytes = b""
    variations: tuple[str, ...] = ()

    def named(self, *names: str) -> CaseDraft:
        """The draft with the names of further variations."""
        return replace(self, variations=(*self.variations, *names))


@dataclass(frozen=True)
class Base:
    """A valid test case that a variation starts from: one with an index, or a probe.

    number: the index, or the number of the probe's instance. key: operator of the probe, or None.
    """

    number: int
    key: SupportKey | None = None


MakeBase = Callable[[Base], "TestCase | None"]
"""Makes a valid test case; None if that fails."""


class Variation:
    """Base of all variations; one object per configuration (one exporter at one opset).

    name: prefix of the names in TestCase.variations, "name" or "name:detail". setting: the
    CaseSettings field that holds the share of tests; "" if there is none. exporter: the only one
    whose models can vary; "" for all. since: first opset. valid: whether models that must be
    refused go without it. probes: whether probes of one operator have it. remakes: whether it makes
    a test case from others by `remade`.
    """

    name: ClassVar[str]
    setting: ClassVar[str] = ""
    exporter: ClassVar[str] = ""
    since: ClassVar[int] = 0
    valid: ClassVar[bool] = True
    probes: ClassVar[bool] = False
    remakes: ClassVar[bool] = False

    def __init__(self, config: CaseConfig, catalog: Catalog) -> None:
        self.config = config

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        """Whether any test of a configuration can have the variation."""
        if (cls.exporter and config.exporter != cls.exporter) or config.opset < cls.since:
            return False
        return not (cls.valid and config.invalid)

    @property
    def share(self) -> float:
        """The share of tests that have the variation."""
        return float(getattr(self.config, self.setting))

    # -- stages, in this order ---------------------------------------------------------------------

    @classmethod
    def chosen(cls, config: CaseConfig, seed: int, index: int) -> bool:
        """Whether the test of an index is made with another configuration (`configured`)."""
        return False

    @classmethod
    def configured(cls, config: CaseConfig) -> CaseConfig:
        """The configuration of the tests that are `chosen`."""
        return config

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        """Change how the graph is generated."""
        return plan

    def grown(
        self, draft: CaseDraft, plan: GraphPlan, made: Generated, rng: random.Random
    ) -> CaseDraft:
        """Change a graph that has no values yet."""
        return draft

    def valued(self, test: VariedTest, draft: CaseDraft) -> CaseDraft:
        """Change a graph together with its values."""
        return draft

    def fed(self, draft: CaseDraft, rng: random.Random) -> CaseDraft:
        """Change the inputs, after the exporter has run the graph with others."""
        return draft

    def written(self, test: VariedTest, draft: CaseDraft) -> CaseDraft:
        """Change the model."""
        return draft

    def remade(self, test: VariedTest, make: MakeBase) -> TestCase:
        """Make the test case from other ones. Raises: NotVaried."""
        raise NotVaried(self.name)
