"""The contract of a variation: whatever makes a test case other than plain.

A test case is made in stages, and a variation takes part in those whose hooks it overrides. All
hooks return what they are given unless they change it. Randomness is either `rng`, which the stages
of a test share, or a stream of the test (`VariedTest.stream`): a share that is drawn from a stream
of its own changes no other draw.
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
"""One of so many tests has its graph verified."""


class NotVaried(Exception):
    """A test case that consists of a variation alone cannot be made; the message has the reason."""


@dataclass(frozen=True)
class VariedTest:
    """The test case that is being made.

    index: None for a probe of one operator. config: of one exporter at one opset. catalog: the
    operators that its graph may have.
    """

    seed: int
    index: int | None
    config: CaseConfig
    catalog: Catalog
    _streams: dict[str, random.Random] = field(default_factory=dict)

    def stream(self, name: str) -> random.Random:
        """Random numbers that depend on the seed, the index and the name of the stream alone."""
        if name not in self._streams:
            self._streams[name] = random.Random(f"{self.seed}/{self.index}/{name}")
        return self._streams[name]

    def check(self, graph: Graph) -> None:
        """Verifies a graph in one of VERIFIED tests: the moves that made it are checked ones.

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
    """How the graph of a test case will be grown.

    corpus: graphs; generation starts from one of them. turns: motifs to plant first. symbolic:
    whether the graph shall have a symbolic dimension. variations: names of those that changed the
    plan.
    """

    config: GenerateConfig
    corpus: Sequence[Kept] = ()
    turns: Sequence[MotifTurn] = ()
    symbolic: bool = False
    variations: tuple[str, ...] = ()


@dataclass(frozen=True)
class CaseDraft:
    """A test case between its graph and its model.

    found: inputs, weights and values, empty before the search. traced: the inputs with which an
    exporter runs the graph. plain: the model before it was rewritten, else empty. variations: names
    of those that made it.
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
    """A valid test case, from which a variation makes another one: that of an index, or a probe.

    key: of the operator of a probe. number: the index, or the instance of the probe.
    """

    number: int
    key: SupportKey | None = None


MakeBase = Callable[[Base], "TestCase | None"]
"""Makes a valid test case; None if there is none."""


class Variation:
    """The base of all variations; one object for each configuration of one exporter and opset.

    name: begins the names in TestCase.variations, "name" or "name:detail". setting: the field of
    CaseSettings with the share of the tests; "" if there is none. exporter: whose models it can
    vary; "" for all. since: the first opset at which it can. valid: whether it is left out of
    models that must be refused. probes: whether probes of one operator have it. remakes: whether a
    test case is made of others by `remade`.
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
        """The share of the tests that have it."""
        return float(getattr(self.config, self.setting))

    # -- stages, in this order ---------------------------------------------------------------------

    @classmethod
    def chosen(cls, config: CaseConfig, seed: int, index: int) -> bool:
        """Whether the test of an index is made under another configuration (`configured`)."""
        return False

    @classmethod
    def configured(cls, config: CaseConfig) -> CaseConfig:
        """The configuration of the tests that are `chosen`."""
        return config

    def planned(self, test: VariedTest, plan: GraphPlan, rng: random.Random) -> GraphPlan:
        """Changes how the graph is grown."""
        return plan

    def grown(
        self, draft: CaseDraft, plan: GraphPlan, made: Generated, rng: random.Random
    ) -> CaseDraft:
        """Changes a graph without values."""
        return draft

    def valued(self, test: VariedTest, draft: CaseDraft) -> CaseDraft:
        """Changes a graph with its values."""
        return draft

    def fed(self, draft: CaseDraft, rng: random.Random) -> CaseDraft:
        """Changes the inputs, which the exporter does not see."""
        return draft

    def written(self, test: VariedTest, draft: CaseDraft) -> CaseDraft:
        """Changes the model."""
        return draft

    def remade(self, test: VariedTest, make: MakeBase) -> TestCase:
        """Makes the test case out of other ones. Raises: NotVaried."""
        raise NotVaried(self.name)
