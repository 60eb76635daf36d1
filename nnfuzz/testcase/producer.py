"""The front half of the street: (seed, index) -> graph -> inputs -> model, and the judge."""

from __future__ import annotations

import importlib.util
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from nnfuzz.check.legality import lawful
from nnfuzz.compare.attribute import Run, attribute
from nnfuzz.compare.lift import lift
from nnfuzz.compare.verdict import judge
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import DTYPE_WEIGHTS, GenerateConfig
from nnfuzz.generate.spotlight import spot_for
from nnfuzz.generate.symbolic import generate
from nnfuzz.inputs.search import Found, SearchConfig, search
from nnfuzz.ir.edges import is_edge
from nnfuzz.ir.graph import Graph
from nnfuzz.materialize.errors import ExportError, OpsetError
from nnfuzz.materialize.exporters import all_exporters
from nnfuzz.materialize.module import execute, tensors
from nnfuzz.materialize.opsets import opset_range
from nnfuzz.spec.carriers import array
from nnfuzz.spec.motif import MotifRegistry
from nnfuzz.spec.operator import OpSpec
from nnfuzz.spec.registry import OpRegistry
from nnfuzz.testcase import seeds
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.resized import sized

Report = Callable[[str], None]
PROBE_NODES = 1
ATTEMPTS = 3
"""Graphs tried for one index until inputs are found; all but the last get a small budget."""
QUICK = SearchConfig(restarts=2, steps=12)
"""A new graph costs a tenth of what the last two of a hundred graphs cost the full search."""
PYTORCH = "pytorch"
DIRECT = "@direct"


class Producer:
    """Makes the test cases of one campaign; each depends on (seed, index, config) only."""

    def __init__(self, seed: int, config: CaseConfig) -> None:
        """Raises: KeyError for an unknown operator or exporter; ValueError if nothing is left.

        OpsetError if the exporter does not reach the opset.
        """
        opsets = opset_range(config.exporter)
        if not opsets[0] <= config.opset <= opsets[1]:
            raise OpsetError(f"exporter {config.exporter}", config.opset, opsets)
        self.seed = seed
        self.config = config
        plugins = [load_module(path) for path in config.plugins]
        self.registry = OpRegistry.load(plugins)
        self.motifs = MotifRegistry.load(plugins).motifs()
        self.exporters = all_exporters()
        self.generate = GenerateConfig(
            nodes=config.nodes,
            motifs=config.motifs,
            sizes=config.sizes,
            dtype_weights={**DTYPE_WEIGHTS, **config.dtypes},
            refused=frozenset(config.refused),
            exporter=config.exporter,
            opset=config.opset,
        )
        self.generate = lawful(self.generate, self._specs())
        self.seeds = seeds.load(config, self.registry)
        self.catalog = Catalog(self._specs(), self.generate, self.motifs)
        avoided = frozenset(key for key in config.avoid if not is_edge(key))
        self.restrained = replace(
            self.generate,
            refused=self.generate.refused | avoided,
            avoid=frozenset(config.avoid) - avoided,
        )
        self.narrowed = self.catalog
        if avoided:
            self.narrowed = Catalog(self._specs(), self.restrained, self.motifs)

    def _specs(self) -> list[type[OpSpec]]:
        chosen = self.registry.select(self.config.operators or self.registry)
        excluded = set(self.registry.select(self.config.exclude))
        return [
            s for s in chosen.specs() if s.name not in excluded and s.since <= self.config.opset
        ]

    def signatures(self) -> list[str]:
        """The keys of every signature that generation may use."""
        return self.catalog.signature_keys()

    def variables(self) -> dict[str, list[int]]:
        """Per operator, the first input that binds each type variable, in a key's order."""
        return {spec.name: list(spec.bound().values()) for spec in self._specs()}

    def produce(self, index: int, report: Report = lambda stage: None) -> TestCase | NotProduced:
        """The test case of an index, or why there is none. Never raises for a bad case."""
        rng = random.Random(f"{self.seed}/{index}")
        if self.config.restrains(self.seed, index):
            return self._make(index, rng, self.narrowed, self.restrained, report)
        return self._make(index, rng, self.catalog, self.generate, report)

    def probe(
        self, key: str, instance: int, report: Report = lambda stage: None
    ) -> TestCase | NotProduced:
        """A test case of a single operator with the given signature. Raises: KeyError."""
        rng = random.Random(f"probe/{key}/{instance}")
        config = replace(self.generate, nodes=PROBE_NODES, refused=frozenset())
        return self._make(-1, rng, self.catalog.only(key), config, report)

    def _make(
        self,
        index: int,
        rng: random.Random,
        catalog: Catalog,
        config: GenerateConfig,
        report: Report,
    ) -> TestCase | NotProduced:
        case = _Attempt(index, report)
        graphs = self.seeds.graphs if index >= 0 else ()  # none for probes
        spot = spot_for(catalog, self.seed, index) if index >= 0 else None
        try:
            for attempt in range(ATTEMPTS):
                with case.phase("generate"):
                    start = rng.choice(graphs) if graphs else None
                    made = generate(catalog, config, rng, start, spot)
                    made.graph.verify()
                    graph, exporter = sized(made, self.config, rng, index)
                    case.graph = graph.to_json()
                with case.phase("inputs"):
                    budget = SearchConfig() if attempt == ATTEMPTS - 1 else QUICK
                    found = search(graph, random.Random(rng.random()), budget)
                if isinstance(found, Found):
                    break
                case.discarded += 1
            else:
                return case.failed(found.reason, stage="inputs")
            with case.phase("export"):
                export = self.exporters[exporter].export
                model = export(graph, found.weights, found.inputs, self.config.opset)
        except ExportError as error:
            return case.failed(str(error), error, stage="export")
        except Exception as error:
            return case.failed(f"while in phase {case.now}: {error}", error)
        return TestCase(
            seed=self.seed,
            index=index,
            graph=case.graph,
            model=model,
            inputs=found.inputs,
            weights=found.weights,
            expected=found.outputs,
            exporter=exporter,
            opset=self.config.opset,
            seconds=case.seconds,
            solver_checks=made.solver_checks,
            discarded=case.discarded,
            motifs=made.motifs,
        )

    def load(self, case: TestCase) -> Graph:
        """The concrete graph of a test case."""
        return Graph.from_json(case.graph, self.registry.get)

    def lower(self, case: TestCase) -> bytes:
        """The model of the same graph and weights by direct emission."""
        opset = min(self.config.opset, opset_range("direct")[1])
        return self.exporters["direct"].export(self.load(case), case.weights, case.inputs, opset)

    def expose(self, case: TestCase) -> TestCase:
        """The same model with every computed value as an output, in topological order.

        Raises: ExportError, and as the exporters do.
        """
        graph = self.load(case)
        graph.outputs = [name for node in graph.nodes for name in node.outputs]
        return self._exported(case, graph)

    def lift(self, case: TestCase) -> TestCase:
        """The same model in the next wider floating dtypes (see nnfuzz.compare.lift).

        Raises: LiftError, ExportError, and as the exporters do.
        """
        graph, params = lift(self.load(case), {**case.inputs, **case.weights})
        inputs, weights = ({n: params[n] for n in names} for names in (case.inputs, case.weights))
        return self._exported(replace(case, inputs=inputs, weights=weights), graph)

    def _exported(self, case: TestCase, graph: Graph) -> TestCase:
        """The case with another graph over its inputs and weights."""
        values = execute(graph, tensors({**case.inputs, **case.weights}))
        model = self.exporters[case.exporter].export(graph, case.weights, case.inputs, case.opset)
        expected = {name: array(values[name], graph.type(name).dtype) for name in graph.outputs}
        return replace(case, graph=graph.to_json(), model=model, expected=expected)

    def judge(
        self,
        case: TestCase,
        parties: Sequence[tuple[str, str]],
        outputs: Sequence[Mapping[str, np.ndarray]],
    ) -> dict[str, Any]:
        """The interval verdict on the outputs of (backend, level) parties, as JSON.

        A party's name in it is "BACKEND/LEVEL"; native PyTorch is judged beside them as "pytorch".
        The levels of a backend are not independent. "attribution" names the accused per backend.
        A backend called "NAME@direct" ran the direct lowering of the graph (see `lower`): where it
        agrees and NAME does not, the exporter is accused.
        """
        names = ["/".join(party) for party in parties]
        groups: dict[str, list[str]] = {PYTORCH: [PYTORCH]}
        for (backend, _), name in zip(parties, names):
            groups.setdefault(backend, []).append(name)
        verdict = judge(
            self.load(case),
            {**case.inputs, **case.weights},
            {PYTORCH: case.expected, **dict(zip(names, outputs, strict=True))},
            groups.values(),
        )
        runs = [
            Run(backend, level, not verdict.mismatches[name], arrays)
            for (backend, level), name, arrays in zip(parties, names, outputs)
        ]
        sound = not verdict.mismatches[PYTORCH]
        independent = [run for run in runs if not run.backend.endswith(DIRECT)]
        accused = {
            b: attribute(
                independent,
                b,
                torch_agrees=sound,
                direct=[run for run in runs if run.backend == b + DIRECT] or None,
            )
            for b in groups
            if b != PYTORCH and not b.endswith(DIRECT)
        }
        return {
            **verdict.to_json(),
            "attribution": {backend: found.to_json() for backend, found in accused.items()},
        }


class _Attempt:
    """Book-keeping of one production: the phase, the times, the graph so far."""

    def __init__(self, index: int, report: Report) -> None:
        self.index = index
        self.report = report
        self.now = "start"
        self.seconds: dict[str, float] = {}
        self.graph: dict[str, Any] | None = None
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
        return NotProduced(
            index=self.index,
            stage=stage,
            message=message,
            error_type=type(error).__name__ if error else "",
            traceback="".join(traceback.format_exception(error)) if error else "",
            unsupported=isinstance(error, ExportError) and error.unsupported,
            graph=self.graph,
            seconds=self.seconds,
        )


def load_module(path: str) -> ModuleType:
    """Import a plug-in file once. Raises: FileNotFoundError, and whatever the file raises."""
    file = Path(path).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"plug-in {path} is not a file")
    name = f"nnfuzz_plugin_{file.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]
