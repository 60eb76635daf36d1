"""Makes the test cases of one exporter: (seed, index) -> graph -> inputs -> model."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache

from nnfuzz.backend.target import DIRECT
from nnfuzz.base.code_paths import CodePaths
from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engine import Generated, Kept
from nnfuzz.generate.engines import engine
from nnfuzz.generate.focus import focused_weights
from nnfuzz.generate.interface import fitted, is_taken
from nnfuzz.generate.turns import CoverageTarget, CoverageTargets
from nnfuzz.inputs.search import DRAWS_ONLY, Found, NotFound, SearchConfig, search
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.ir.view import NO_GRAPH
from nnfuzz.materialize.emit import writable_part
from nnfuzz.materialize.errors import ExporterDied, ExportError, OpsetError
from nnfuzz.materialize.opsets import opset_range
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.identity import Numbered, Probe, TestId
from nnfuzz.testcase.vocabulary import (
    Parts,
    generate_config,
    keys_holding,
    motifs_of,
    operator_weights,
    specs_of,
)
from nnfuzz.vary.table import VARIATIONS
from nnfuzz.vary.variation import (
    Base,
    CaseDraft,
    GraphPlan,
    NotVaried,
    Variation,
    VariedTest,
)

Report = Callable[[str], None]
PROBE_NODES = 1
"""A probe tests one operator: nothing else in its model may fail."""
ATTEMPTS = 5
"""Graphs tried for one index until one has valid inputs; the last one gets the full search."""
DESCENTS = 2
"""The same where a descent is wanted: so many attempts with a small budget for it come first."""
FAMILY = 8
"""Test cases in a row that the mutating engine makes of one graph, the first of them unchanged."""
KEPT = 4
"""Graphs that a generator remembers the values of: the producers of a campaign work in order."""
QUICK = SearchConfig(restarts=2, steps=12)


class CaseGenerator:
    """Makes the test cases of a configuration with one exporter.

    variations: those that any test may have. budgets: of the input search, for each graph that is
    tried in turn. catalog: what graphs are made of; targets: what some of them begin with;
    narrowed: the same without what most of them shall avoid.
    """

    def __init__(self, seed: int, config: CaseConfig, parts: Parts) -> None:
        """Raises: KeyError for an unknown operator or exporter; NothingLeft if there is nothing
        to generate from; OpsetError if the exporter does not reach the opset; Unreadable.
        """
        opsets = opset_range(config.exporter)
        if not opsets[0] <= config.opset <= opsets[1]:
            raise OpsetError(f"exporter {config.exporter}", config.opset, opsets)
        refused, avoid = (
            keys_holding(keys, config, parts) for keys in (config.refused, config.avoid)
        )
        config = replace(config, refused=refused, avoid=avoid)
        self.seed = seed
        self.config = config
        self.specs = specs_of(config, parts.registry)
        self.exporters, self.registry = parts.exporters, parts.registry
        weights = operator_weights(config, self.specs)
        if config.focus:
            weights = focused_weights(weights, self.specs, config.focus)
        weighed = replace(generate_config(config), operator_weights=weights)
        self.generate = admitted_by_schema(
            weighed, self.specs, config.onnx_release, parts.judgements
        )
        motifs = motifs_of(config, parts)
        self.catalog = Catalog(self.specs, self.generate, motifs)
        self.targets = CoverageTargets(self.catalog, config.focus)
        self.seeds = parts.seeds.load(config)
        self.corpus = [Kept(graph) for graph in self.seeds.graphs]
        avoided = frozenset(key for key in config.avoid if SupportKey.parse(key).is_signature)
        self.restrained = replace(
            self.generate,
            refused=self.generate.refused | avoided,
            avoid=frozenset(config.avoid) - avoided,
        )
        first = [QUICK] * DESCENTS if config.descend else [DRAWS_ONLY] * (ATTEMPTS - 1)
        self.budgets = (*first, SearchConfig())
        self.variations = [v(config, self.catalog) for v in VARIATIONS if v.applies(config)]
        self._parents = lru_cache(KEPT)(self._parent)
        self.narrowed = self.targets
        if avoided:
            narrowed = Catalog(self.specs, self.restrained, motifs)
            self.narrowed = CoverageTargets(narrowed, config.focus)

    def produce(
        self, index: int, report: Report, died: tuple[str, str] | None = None
    ) -> TestCase | NotProduced:
        """The test case of an index, or why there is none. Never raises for a bad case.

        died: see nnfuzz.testcase.jobs.Produce.
        """
        for variation in self.variations:
            if variation.remakes:
                return self._remade(variation, index, report)
        return self._making(index, report, died).made()

    def probe(
        self, probe: Probe, report: Report, died: tuple[str, str] | None = None
    ) -> TestCase | NotProduced:
        """A test case of a single operator with the probe's signature. Raises: KeyError."""
        signature = str(probe.key.signature)
        rng = random.Random(f"probe/{signature}/{probe.instance}")
        config = replace(self.generate, nodes=PROBE_NODES, refused=frozenset())
        catalog = self.catalog.only(signature)
        test = VariedTest(self.seed, None, self.config, catalog)
        return _Making(
            self, probe, test, CoverageTargets(catalog), config, rng, report, died
        ).made()

    def _remade(self, variation: Variation, index: int, report: Report) -> TestCase | NotProduced:
        """The test case that a variation makes of others, or why there is none."""
        last: list[TestCase | NotProduced] = []

        def make(base: Base) -> TestCase | None:
            if base.key is None:
                last[:] = [self._making(base.number, report).made()]
            else:
                last[:] = [self.probe(Probe(base.key, base.number), report)]
            return last[0] if isinstance(last[0], TestCase) else None

        id_ = Numbered(self.seed, index)
        try:
            test = VariedTest(self.seed, index, self.config, self.catalog)
            return replace(variation.remade(test, make), id=id_)
        except NotVaried as error:
            if last and isinstance(last[0], NotProduced) and last[0].stage == "fault":
                return replace(last[0], id=id_)
            return NotProduced(id_, "generate", str(error), generated_for=self.config.writer)

    def _making(self, index: int, report: Report, died: tuple[str, str] | None = None) -> _Making:
        """What is needed to make the test case of an index: `_Making.made` then makes it.

        died: see nnfuzz.testcase.jobs.Produce.
        """
        restrained = self.config.restrains(self.seed, index)
        targets = self.narrowed if restrained else self.targets
        config = self.restrained if restrained else self.generate
        test = VariedTest(self.seed, index, self.config, targets.catalog)
        rng = random.Random(f"{self.seed}/{index}")
        return _Making(self, Numbered(self.seed, index), test, targets, config, rng, report, died)

    def starts(self, index: int) -> Sequence[Kept]:
        """The graphs that the graph of an index may start from; a function of the index, as the
        graph is.

        Where graphs are mutated, the first of FAMILY indexes is made anew, and the others of it.
        """
        if self.config.engine != "mutate" or self.corpus:
            return self.corpus
        turn = index // self.config.among
        first = index - turn % FAMILY * self.config.among
        return () if first == index else self._parents(first)

    def _parent(self, index: int) -> Sequence[Kept]:
        """The graph that other indexes start from: that of `index` without its variations, with
        valid values. Empty if a short search finds no inputs.
        """
        making = self._making(index, lambda stage: None)
        made = making.grown_anew()
        searched = search(made.graph, random.Random(making.rng.random()), DRAWS_ONLY)
        if not isinstance(searched, Found):
            return ()
        return [Kept(made.graph, searched.values, made.motifs)]


class _GivenUp(Exception):
    """No graph of a test case has valid inputs."""


class _Making:
    """One test case while it is made: planned, grown, searched, varied, written."""

    def __init__(
        self,
        generator: CaseGenerator,
        id_: TestId,
        test: VariedTest,
        targets: CoverageTargets,
        config: GenerateConfig,
        rng: random.Random,
        report: Report,
        died: tuple[str, str] | None,
    ) -> None:
        self.generator = generator
        self.test = test
        self.targets = targets
        self.rng = rng
        self.died = died
        self.case = _Attempt(id_, generator.config.writer, report)
        probed = test.index is None
        every = generator.variations
        self.variations = [v for v in every if v.probes or not probed]
        corpus = () if test.index is None else generator.starts(test.index)
        plan = GraphPlan(config, corpus)
        for variation in self.variations:
            plan = variation.planned(test, plan, rng)
        self.plan = plan

    def made(self) -> TestCase | NotProduced:
        """The test case, or why there is none."""
        try:
            draft = self._written(self._fed(self._valued(self._grown())))
            graph = draft.graph.view()
        except _GivenUp as error:
            return self.case.failed(str(error), stage="inputs")
        except ExportError as error:
            return self.case.failed(str(error), error, stage="export")
        except Exception as error:
            return self.case.failed(f"while in phase {self.case.now}: {error}", error)
        config = self.generator.config
        return TestCase(
            id=self.case.id,
            graph=graph,
            model=draft.model,
            inputs=draft.found.inputs,
            weights=draft.found.weights,
            expected=draft.found.outputs,
            exporter=draft.exporter,
            opset=config.opset,
            seconds=self.case.seconds,
            discarded=self.case.discarded,
            variations=draft.variations,
            generated_for=config.writer,
            plain=draft.plain,
        )

    def _target(self, aimed: bool) -> CoverageTarget | None:
        """What the graph begins with. aimed: at the focus."""
        if self.test.index is None:
            return None
        return self.targets.pick(self.test.seed, self.test.turn, aimed)

    def grown_anew(self) -> Generated:
        """A graph without its variations, by the engine that starts from none."""
        made_by = engine("direct", self.test.catalog, self.plan.config)
        return made_by.next(self.rng, (), self._target(False), self.plan.turns)

    def _grown(self) -> CaseDraft:
        """A graph with valid inputs. Raises: _GivenUp."""
        plan, config = self.plan, self.generator.config
        name = "symbolic" if plan.symbolic else config.engine
        made_by = engine(name, self.test.catalog, plan.config)
        target, turns = self._target(self.targets.focused and not plan.turns), plan.turns
        for budget in self.generator.budgets:
            with self.case.phase("generate"):
                made = made_by.next(self.rng, plan.corpus, target, turns)
                draft = self._draft(made)
            with self.case.phase("inputs"):
                own = random.Random(self.rng.random())
                found = search(draft.graph, own, budget, known=made.known)
            if isinstance(found, Found) and draft.graph.nodes:
                if self._touches_focus(draft.graph):
                    break
                # A motif may be written without the operators for which it was chosen.
                turns, target = (), self._target(True)
            self.case.discarded += 1
        if not draft.graph.nodes:
            raise _GivenUp(f"no node can be written at opset {config.opset}")
        if isinstance(found, NotFound):
            raise _GivenUp(found.reason)
        return replace(draft, found=found, traced=found.inputs)

    def _draft(self, made: Generated) -> CaseDraft:
        """A graph in the variations that need no values."""
        config = self.generator.config
        draft = CaseDraft(made.graph, config.exporter, variations=self.plan.variations)
        for variation in self.variations:
            draft = variation.grown(draft, self.plan, made, self.rng)
        graph = writable_part(draft.graph, config.opset)
        if not is_taken(graph, config.interface):
            graph = fitted(graph, config.interface, self.generator.registry.get)
        draft = replace(draft, graph=graph)
        self.test.check(draft.graph)
        self.case.graph = draft.graph
        return draft

    def _touches_focus(self, graph: Graph) -> bool:
        """Whether a graph has an operator of the focus, if there is one; a probe need not."""
        focus = self.generator.config.focus
        probed = self.test.index is None
        return probed or not focus or any(node.op.name in focus for node in graph.nodes)

    def _valued(self, draft: CaseDraft) -> CaseDraft:
        """The draft in the variations of a graph with values."""
        with self.case.phase("generate"):
            for variation in self.variations:
                draft = variation.valued(self.test, draft)
        self.case.graph = draft.graph
        return replace(draft, traced=draft.found.inputs)

    def _fed(self, draft: CaseDraft) -> CaseDraft:
        """The draft with inputs that no exporter sees: PyTorch refuses to compute with some."""
        for variation in self.variations:
            draft = variation.fed(draft, self.rng)
        return draft

    def _written(self, draft: CaseDraft) -> CaseDraft:
        """The draft with its model. Raises: ExportError."""
        opset = self.generator.config.opset
        with self.case.phase("export"):
            if self.died and draft.exporter != DIRECT:
                cause = ExporterDied(*self.died)
                raise ExportError(draft.exporter, opset, cause) from cause
            export = self.generator.exporters[draft.exporter].export
            model = export(draft.graph, draft.found.weights, draft.traced, opset)
            draft = replace(draft, model=model)
            for variation in self.variations:
                draft = variation.written(self.test, draft)
        return draft


class _Attempt:
    """Book-keeping of one production: the phase, the times, the graph so far."""

    def __init__(self, id_: TestId, generated_for: str, report: Report) -> None:
        self.id = id_
        self.generated_for = generated_for
        self.report = report
        self.now = "start"
        self.seconds: dict[str, float] = {}
        self.graph: Graph | None = None
        self.discarded = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.now = name
        self.report(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def failed(
        self, message: str, error: BaseException | None = None, stage: str = "fault"
    ) -> NotProduced:
        trace = "".join(traceback.format_exception(error)) if error else ""
        if stage == "export":
            message, trace = map(CodePaths.here().foreign, (message, trace))
        return NotProduced(
            id=self.id,
            stage=stage,
            message=message,
            error_type=type(error).__name__ if error else "",
            traceback=trace,
            unsupported=isinstance(error, ExportError) and error.unsupported,
            graph=self.graph.view() if self.graph else NO_GRAPH,
            seconds=self.seconds,
            generated_for=self.generated_for,
        )
