"""Makes the test cases of one exporter: (seed, index) -> graph -> inputs -> model."""

from __future__ import annotations

import itertools
import random
import time
import traceback
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from nnfuzz.backend.target import DIRECT
from nnfuzz.base.code_paths import CodePaths
from nnfuzz.check.judgements import Judgements
from nnfuzz.check.versions import admitted_by_schema, newest_of_version, version_of
from nnfuzz.generate.catalog import Catalog, NothingLeft
from nnfuzz.generate.config import DTYPE_WEIGHTS, GenerateConfig
from nnfuzz.generate.coverage_target import CoverageTargets
from nnfuzz.generate.engine import Generated, Kept
from nnfuzz.generate.engines import engine
from nnfuzz.generate.focus import AGAIN, AIMED, focused_weights, touching
from nnfuzz.generate.large import LARGE
from nnfuzz.generate.motif_turns import MotifTurn, motif_turns, skeleton_turns
from nnfuzz.generate.resizing import Resizable
from nnfuzz.generate.writable import writable
from nnfuzz.inputs.edges import at_edges, expected
from nnfuzz.inputs.search import DRAWS_ONLY, Found, NotFound, SearchConfig, search
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.sizes import join_copies
from nnfuzz.ir.support_key import SupportKey, operators_in
from nnfuzz.ir.view import NO_GRAPH
from nnfuzz.materialize.dynamic import SizeError, emit_dynamic
from nnfuzz.materialize.emit import writable_part
from nnfuzz.materialize.errors import ExporterDied, ExportError, OpsetError
from nnfuzz.materialize.exporters import Exporter
from nnfuzz.materialize.older import CHANGED, WHOLE
from nnfuzz.materialize.opsets import DYNAMIC, exporter_of, opset_of, opset_range
from nnfuzz.operators.carriers import array
from nnfuzz.operators.motif import Motif
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.identity import Numbered, Probe, TestId
from nnfuzz.testcase.seeds import SeedLibrary
from nnfuzz.testcase.settings import EMPTY
from nnfuzz.vary.quantize.draft import Form
from nnfuzz.vary.quantize.twin import Twin, quantised_twin
from nnfuzz.vary.rewrite.rewriting import (
    MOST_STEPS,
    RULES,
    USUAL,
    Step,
    draw_rewriting,
    form_name,
    needs,
    of_kinds,
)
from nnfuzz.vary.rewrite.rule import Kind

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
NOTHING = 0.1
"""Probability that a fresh dimension of a tensor that may be empty is 0."""
SPELLED_STEPS = 3
SCARCE = 4.0
DIMENSIONS = 4
"""How many dimensions of a graph may become symbolic ones before it is exported without any."""


@dataclass(frozen=True)
class Parts:
    """The parts that the case generators of a producer share in all configurations."""

    registry: OpRegistry
    motifs: Sequence[Motif]
    exporters: Mapping[str, Exporter]
    seeds: SeedLibrary
    judgements: Judgements


class CaseGenerator:
    """Makes the test cases of a configuration with one exporter.

    budgets: of the input search, for each graph that is tried in turn.

    catalog: what graphs are made of; targets: what some of them begin with; narrowed: the same
    without what most of them shall avoid.
    """

    def __init__(self, seed: int, config: CaseConfig, parts: Parts) -> None:
        """Raises: KeyError for an unknown operator or exporter; NothingLeft if there is nothing
        to generate from; OpsetError if the exporter does not reach the opset; SeedError.
        """
        opsets = opset_range(config.exporter)
        if not opsets[0] <= config.opset <= opsets[1]:
            raise OpsetError(f"exporter {config.exporter}", config.opset, opsets)
        refused, avoid = (_holding(keys, config, parts) for keys in (config.refused, config.avoid))
        config = replace(config, refused=refused, avoid=avoid)
        self.seed = seed
        self.config = config
        self.specs = _specs(config, parts.registry)
        self._exporters = parts.exporters
        weights = _operator_weights(config, self.specs)
        if config.focus:
            weights = focused_weights(weights, self.specs, config.focus)
        weighed = replace(_generate(config), operator_weights=weights)
        self.generate = admitted_by_schema(
            weighed, self.specs, config.onnx_release, parts.judgements
        )
        motifs = _motifs(config, parts)
        self.catalog = Catalog(self.specs, self.generate, motifs)
        self.targets = CoverageTargets(self.catalog, config.focus)
        self.seeds = parts.seeds.load(config)
        self.corpus = [Kept(graph) for graph in self.seeds.graphs]
        avoided = frozenset(key for key in config.avoid if not SupportKey.parse(key).is_edge)
        self.restrained = replace(
            self.generate,
            refused=self.generate.refused | avoided,
            avoid=frozenset(config.avoid) - avoided,
        )
        first = [QUICK] * DESCENTS if config.descend else [DRAWS_ONLY] * (ATTEMPTS - 1)
        self.budgets = (*first, SearchConfig())
        self._rewrites = self._rewrites_of(config)
        self._parents = lru_cache(KEPT)(self._parent)
        self.narrowed = self.targets
        if avoided:
            narrowed = Catalog(self.specs, self.restrained, motifs)
            self.narrowed = CoverageTargets(narrowed, config.focus)

    def _rewrites_of(self, config: CaseConfig) -> list[tuple[tuple[str, ...], float, int]]:
        """Rules that are drawn together, the share of the models for them, and most steps of each.

        They bring in nothing that compilers do not take, and no operator all of whose signatures
        are refused.
        """
        left = operators_in(self.catalog.signature_keys())
        gone = {*(operators_in(config.refused) - left), *config.unrewritten}
        kinds = (*(USUAL if config.rewrites else ()), *((Kind.EMPTY,) if config.edges else ()))
        rewrites = EMPTY if config.rewrites is None else config.rewrites
        drawn: list[tuple[tuple[Kind, ...], float, int]] = [
            (kinds, rewrites, MOST_STEPS),
            ((Kind.SPELLING,), config.spelled, SPELLED_STEPS),
        ]
        if config.opset < CHANGED:  # rules write nodes as later opsets have them
            drawn = []
        drawn.append(((Kind.FORM, Kind.ENDS), config.forms, 1))
        made = []
        for kinds, share, most in drawn:
            names = [n for n in of_kinds(*kinds) if not any(needs(RULES[n], f) for f in gone)]
            made += [(tuple(names), share, most)] if names and share else []
        return made

    def produce(
        self, index: int, report: Report, died: tuple[str, str] | None = None
    ) -> TestCase | NotProduced:
        """The test case of an index, or why there is none. Never raises for a bad case.

        died: see nnfuzz.testcase.jobs.Produce.
        """
        rng, id_ = random.Random(f"{self.seed}/{index}"), Numbered(self.seed, index)
        if self.config.restrains(self.seed, index):
            return self._make(id_, rng, self.narrowed, self.restrained, report, died)
        return self._make(id_, rng, self.targets, self.generate, report, died)

    def _corpus(self, index: int) -> Sequence[Kept]:
        """The graphs that the graph of an index may start from; a function of the index, as the
        graph is.

        Where graphs are mutated, the first of FAMILY indexes is made anew, and the others of it.
        """
        if self.config.engine != "mutate" or self.corpus:
            return self.corpus
        turn = index // self.config.among
        first = index - turn % FAMILY * self.config.among
        return () if first == index else self._parents(first)

    def motif_turns(self, catalog: Catalog, index: int) -> Sequence[MotifTurn]:
        """The motifs that the graph of an index tries first; with a focus, every second graph
        begins with an arrangement of its operators or any other motif."""
        if self.config.focus and index // self.config.among % 2:
            return ()
        skeletons = skeleton_turns(catalog, self.seed, index, self.config.skeleton_share)
        return skeletons or motif_turns(catalog, self.seed, index // self.config.among)

    def _parent(self, index: int) -> Sequence[Kept]:
        """The graph of an index with its values; none if no inputs were found."""
        rng = random.Random(f"{self.seed}/{index}")
        restrained = self.config.restrains(self.seed, index)
        targets = self.narrowed if restrained else self.targets
        config = self.restrained if restrained else self.generate
        turn = index // self.config.among
        target = targets.pick(self.seed, turn)
        turns = self.motif_turns(targets.catalog, index)
        rng.random()  # as in _make, so that it is the graph of that index
        made = engine("direct", targets.catalog, config).next(rng, (), target, turns)
        searched = search(made.graph, random.Random(rng.random()), DRAWS_ONLY)
        if not isinstance(searched, Found):
            return ()
        return [Kept(made.graph, searched.values, made.motifs)]

    def probe(
        self, probe: Probe, report: Report, died: tuple[str, str] | None = None
    ) -> TestCase | NotProduced:
        """A test case of a single operator with the probe's signature. Raises: KeyError."""
        signature = str(probe.key.signature)
        rng = random.Random(f"probe/{signature}/{probe.instance}")
        config = replace(self.generate, nodes=PROBE_NODES, refused=frozenset())
        targets = CoverageTargets(self.catalog.only(signature))
        return self._make(probe, rng, targets, config, report, died)

    def _make(
        self,
        id_: TestId,
        rng: random.Random,
        targets: CoverageTargets,
        config: GenerateConfig,
        report: Report,
        died: tuple[str, str] | None = None,
    ) -> TestCase | NotProduced:
        case = _Attempt(id_, self.config.writer, report)
        corpus: Sequence[Kept] = ()  # probes start from none, and have no target
        target, sized = None, False
        turns: Sequence[MotifTurn] = ()
        if isinstance(id_, Numbered):
            turn = id_.index // self.config.among  # so that this exporter has every target in turn
            turns = self.motif_turns(targets.catalog, id_.index)
            aimed = targets.focused and not turns
            corpus, target = self._corpus(id_.index), targets.pick(self.seed, turn, aimed)
            sized = not corpus and rng.random() < self.config.dynamic
            sized = sized and self.config.opset >= WHOLE
            if not corpus and not sized and self._is_large(id_.index):
                config = replace(config, sizes=LARGE)
            if self.config.edges and rng.random() < EMPTY:
                config = replace(config, sizes=replace(config.sizes, empty=NOTHING))
        name = "symbolic" if sized else self.config.engine
        made_by = engine(name, targets.catalog, config)
        try:
            for budget in self.budgets:
                with case.phase("generate"):
                    made = made_by.next(rng, corpus, target, turns)
                    made.graph.verify()
                    graph, exporter = self._sized(made, rng) if sized else self._plain(made)
                    graph = graph if sized else writable_part(graph, self.config.opset)
                    case.graph = written = graph.view()
                with case.phase("inputs"):
                    searched = search(graph, random.Random(rng.random()), budget, known=made.known)
                if isinstance(searched, Found) and graph.nodes:
                    if not isinstance(id_, Numbered) or self._touches_focus(graph):
                        break
                    # A motif may be written without the operators for which it was chosen.
                    turns, target = (), targets.pick(self.seed, turn, True)
                case.discarded += 1
            if not graph.nodes:
                reason = f"no node can be written at opset {self.config.opset}"
                return case.failed(reason, stage="inputs")
            if isinstance(searched, NotFound):
                return case.failed(searched.reason, stage="inputs")
            twin = None
            if isinstance(id_, Numbered) and exporter != DYNAMIC:
                with case.phase("generate"):
                    twin = self._twin(graph, searched, id_.index, targets.catalog, config)
            if twin is not None:
                graph, searched = twin.graph, _with_values(searched, twin)
                case.graph = written = graph.view()
            traced = searched.inputs  # PyTorch refuses to compute with some edge values
            if self.config.edges:
                searched = _at_edges(graph, random.Random(rng.random()), searched)
            with case.phase("export"):
                if died and exporter != DIRECT:
                    cause = ExporterDied(*died)
                    raise ExportError(exporter, self.config.opset, cause) from cause
                export = self._exporters[exporter].export
                model = export(graph, searched.weights, traced, self.config.opset)
                plain = b""
                if exporter == DIRECT and isinstance(id_, Numbered):
                    model, plain, exporter = self._rewritten(model, id_.index)
        except ExportError as error:
            return case.failed(str(error), error, stage="export")
        except Exception as error:
            return case.failed(f"while in phase {case.now}: {error}", error)
        return TestCase(
            id=id_,
            graph=written,
            model=model,
            inputs=searched.inputs,
            weights=searched.weights,
            expected=searched.outputs,
            exporter=exporter,
            opset=self.config.opset,
            seconds=case.seconds,
            solver_checks=made.solver_checks,
            discarded=case.discarded,
            motifs=made.motifs if twin is None else (*made.motifs, twin.label),
            generated_for=self.config.writer,
            plain=plain,
        )

    def _touches_focus(self, graph: Graph) -> bool:
        """Whether a graph has an operator of the focus, if there is one."""
        focus = self.config.focus
        return not focus or any(node.op.name in focus for node in graph.nodes)

    def _twin(
        self, graph: Graph, searched: Found, index: int, catalog: Catalog, config: GenerateConfig
    ) -> Twin | None:
        """The quantised twin of the graph of an index, if it is to have one; the draw is that of an
        index alone, so that the share changes no graph.
        """
        rng = random.Random(f"{self.seed}/{index}/quantize")
        if self.config.edges or rng.random() >= self.config.quantize:
            return None
        form = Form(catalog, config.exporter, config.opset, frozenset(config.avoid))
        made = quantised_twin(graph, searched.values, form, rng)
        if made is not None:
            made.graph.verify()
        return made

    def _rewritten(self, model: bytes, index: int) -> tuple[bytes, bytes, str]:
        """The model, the model before rewriting if it was rewritten, and its form; the draw is that
        of an index alone, so that the shares change no graph.
        """
        rng = random.Random(f"{self.seed}/{index}/rewrites")
        after, steps = model, tuple[Step, ...]()
        for rules, share, most in () if self.config.invalid else self._rewrites:
            if rng.random() < share:
                after, done = draw_rewriting(after, rng, rules, most)
                steps += done
        return after, model if steps else b"", form_name(DIRECT, steps)

    def _is_large(self, index: int) -> bool:
        """Whether the graph of an index is to have a large tensor, where it is made anew."""
        draw = random.Random(f"{self.seed}/{index}/sizes").random()
        return self.config.engine != "mutate" and draw < self.config.large

    def _plain(self, made: Generated) -> tuple[Graph, str]:
        """The graph and its exporter."""
        return made.graph, self.config.exporter

    def _sized(self, made: Generated, rng: random.Random) -> tuple[Graph, str]:
        """The graph at several sizes, if a dimension can be symbolic, and its exporter."""
        whole = None
        if made.resizable:
            whole = _at_several_sizes(made.resizable, rng, self.config.opset)
        return self._plain(made) if whole is None else (whole, DYNAMIC)


def _with_values(searched: Found, twin: Twin) -> Found:
    """The result of the input search, with the weights and the values of a twin."""
    graph = twin.graph
    arrays = {n: array(x, graph.type(n).dtype) for n, x in twin.values.items()}
    parts = (graph.inputs, graph.weights, graph.outputs)
    inputs, weights, outputs = ({n: arrays[n] for n in names} for names in parts)
    values = dict(twin.values)
    return replace(searched, inputs=inputs, weights=weights, outputs=outputs, values=values)


def _at_edges(graph: Graph, rng: random.Random, searched: Found) -> Found:
    """The same with edge values in the inputs, unless PyTorch refuses to compute with them."""
    given = at_edges(graph, rng, searched.inputs)
    try:
        outputs = expected(graph, {**given, **searched.weights})
    except (ArithmeticError, RuntimeError):  # an integer divided by zero
        return searched
    return replace(searched, inputs=given, outputs=outputs)


def _motifs(config: CaseConfig, parts: Parts) -> Sequence[Motif]:
    """The motifs that the chosen operators can write at some opset, and that touch the focus."""
    found = parts.motifs
    if config.operators or config.exclude or config.focus:
        specs = _specs(replace(config, opset=opset_range(DIRECT)[1]), parts.registry)
        if config.operators or config.exclude:
            found = writable(tuple(found), tuple(specs))
        if config.focus:
            found = touching(found, specs, config.focus)
    return found


def _specs(config: CaseConfig, registry: OpRegistry) -> list[type[OpSpec]]:
    among = registry.of_domains(config.domains)
    decided = (spec.name for spec in among if spec.edges or spec.carries_nan)
    usual = [*decided, *config.focus] if config.edges else [spec.name for spec in among]
    chosen = registry.select(config.operators or usual)
    excluded = set(registry.select(config.exclude))
    return [s for s in chosen.specs() if s.name not in excluded and s.since <= config.opset]


def newest_signatures(config: CaseConfig, parts: Parts, opsets: tuple[int, ...]) -> list[str]:
    """The keys of the signatures of operators that have another version at the next newer opset.

    config: of one opset. opsets: all that are drawn with it.
    """
    known = parts.judgements
    specs = [
        spec
        for spec in _specs(config, parts.registry)
        if newest_of_version(spec, config.opset, opsets, known) == config.opset  # type: ignore[arg-type]
    ]
    own = replace(config, refused=_holding(config.refused, config, parts))
    try:
        admitted = admitted_by_schema(_generate(own), specs, config.onnx_release, known)
        return Catalog(specs, admitted).signature_keys()
    except NothingLeft:
        return []


def _holding(keys: Iterable[str], config: CaseConfig, parts: Parts) -> tuple[str, ...]:
    """Of some written keys those that hold at the opset of a configuration, without exporters: one
    of a newer opset does where the operator has the same version there.
    """
    holding: list[str] = []
    known = parts.judgements
    for key in map(SupportKey.parse, keys):
        marked = opset_of(key.exporter)
        if not marked:
            holding.append(str(key))
        elif exporter_of(key.exporter) == config.exporter and key.operator in parts.registry:
            spec = parts.registry.get(key.operator)
            own = version_of(spec, config.opset, known)  # type: ignore[arg-type]
            if version_of(spec, marked, known) == own:  # type: ignore[arg-type]
                holding.append(str(key.signature))
    return tuple(holding)


def _generate(config: CaseConfig) -> GenerateConfig:
    aimed = bool(config.focus)
    return GenerateConfig(
        nodes=config.nodes,
        motifs=config.motifs * (AIMED if aimed else 1.0),
        sizes=replace(config.sizes, again=AGAIN) if aimed else config.sizes,
        dtype_weights={**DTYPE_WEIGHTS, **config.dtypes},
        refused=frozenset(config.refused),
        exporter=config.exporter,
        opset=config.opset,
        focus=config.focus,
    )


def _operator_weights(config: CaseConfig, specs: Sequence[type[OpSpec]]) -> dict[str, float]:
    """Factors on the frequencies of operators: those that few of the drawn opsets have are the more
    frequent where they are, up to SCARCE times.
    """
    weights, drawn = {}, sorted(config.drawn)
    for spec in specs:
        having = len(drawn) - bisect_left(drawn, spec.since)
        weights[spec.name] = min(len(drawn) / having, SCARCE) if having else 1.0
    return {name: weight for name, weight in weights.items() if weight != 1.0}


class _Attempt:
    """Book-keeping of one production: the phase, the times, the graph so far."""

    def __init__(self, id_: TestId, generated_for: str, report: Report) -> None:
        self.id = id_
        self.generated_for = generated_for
        self.report = report
        self.now = "start"
        self.seconds: dict[str, float] = {}
        self.graph = NO_GRAPH
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
            graph=self.graph,
            seconds=self.seconds,
            generated_for=self.generated_for,
        )


# -- symbolic dimensions --------------------------------------------------------------------------


def _at_several_sizes(resizable: Resizable, rng: random.Random, opset: int) -> Graph | None:
    """The graph at several sizes (nnfuzz.ir.sizes) for which one model is right, if there is one.

    Raises: as `emit_model` does.
    """
    for family in itertools.islice(resizable.families(rng), DIMENSIONS):
        whole = join_copies(family)
        whole.verify()
        types = {name: whole.type(name) for name in whole.weights}
        weights = {name: np.zeros(t.sizes, t.dtype.numpy) for name, t in types.items()}
        try:
            emit_dynamic(whole, weights, opset)
        except SizeError:
            continue
        return whole
    return None
