"""Works on test cases that are there: checks them, writes them anew, judges outputs.

`CaseBench` does the work, `BenchService` does it as the jobs of a worker, and `LocalProducer` has
the interface of a `ProducerClient` without a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from nnfuzz.backend.numeric import Habits, strange
from nnfuzz.backend.registry import import_plugin
from nnfuzz.backend.target import DIRECT, Target, base_form
from nnfuzz.base.reading import Json, Unreadable
from nnfuzz.base.threads import one_thread
from nnfuzz.base.untrusted import making_sense
from nnfuzz.check.runtimes import BODY, EVALUATOR
from nnfuzz.compare.accuracy import accuracy
from nnfuzz.compare.contradiction import without_contradicted
from nnfuzz.compare.deviating import beside_habits, explanation
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.flip import PYTORCH
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.compare.verdict import judged
from nnfuzz.ir.graph import Graph, pruned
from nnfuzz.ir.sizes import in_first_equal_call
from nnfuzz.materialize.exporters import all_exporters
from nnfuzz.materialize.module import execute, tensors
from nnfuzz.materialize.opsets import CALLED_DIRECT, is_called, opset_range
from nnfuzz.operators.carriers import array
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.operators.waiver import Waiver
from nnfuzz.sandbox.forkserver import ForkClient
from nnfuzz.sandbox.job import Job, Report, Service, does
from nnfuzz.sandbox.sandbox import Sandbox
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.client import A, ProducerClient, ProducerError, reference_sandbox
from nnfuzz.testcase.extraction import with_outputs
from nnfuzz.testcase.foreign import computed
from nnfuzz.testcase.identity import ForeignId
from nnfuzz.testcase.jobs import (
    CheckCase,
    ComputeReference,
    Expose,
    Judge,
    Lower,
    ReferenceService,
)

COLLECTED = (50_000, 10, 50)
"""Thresholds of the garbage collector: by default it takes a twentieth of the time of a producer,
whose test cases hold no cycles to speak of."""


class CaseBench:
    """The operators and exporters with which test cases are worked on.

    edges: see CaseConfig.
    """

    def __init__(self, config: CaseConfig) -> None:
        self.plugins = [import_plugin(path) for path in config.plugins]
        self.registry = OpRegistry.load(self.plugins)
        self.exporters = all_exporters()
        self.judge_by(config)

    def judge_by(self, config: CaseConfig) -> None:
        """From now on, judges by another configuration."""
        self.edges = config.edges

    def load(self, case: TestCase) -> Graph:
        """The concrete graph of a test case."""
        return Graph.of(case.graph, self.registry.get)

    def check(self, case: TestCase) -> None:
        """Raises: Unreadable if the case has no valid graph, or inputs that are not for it."""
        with making_sense("its graph"):
            graph = self.load(case)
            graph.verify()
        with making_sense("its data"):
            params = {**case.inputs, **case.weights}
            for name in (*graph.inputs, *graph.weights):
                declared, given = graph.type(name), params[name]
                if (given.dtype, given.shape) != (declared.dtype.numpy, declared.shape):
                    raise Unreadable(
                        f"{name} is {given.dtype}{list(given.shape)}, not {declared!r}"
                    )
            execute(graph, tensors(params))

    def lower(self, case: TestCase) -> TestCase:
        """The same graph and weights in the direct form."""
        opset = min(case.opset, opset_range(DIRECT)[1])
        form = CALLED_DIRECT if is_called(case.exporter) else DIRECT
        model = self.exporters[form].export(self.load(case), case.weights, case.inputs, opset)
        return replace(case, model=model, plain=b"", exporter=form, opset=opset)

    def expose(self, case: TestCase) -> TestCase:
        """The same model with every computed value as an output, in topological order.

        A model of somebody else keeps its own nodes, and the outputs of nodes that it leaves out.
        Raises: ExportError, and as the exporters do.
        """
        graph = self.load(case)
        names = [name for node in graph.nodes for name in node.outputs]
        if isinstance(case.id, ForeignId):
            values = execute(graph, tensors({**case.inputs, **case.weights}))
            theirs, unread = computed(case.model)
            names = [name for name in names if case.in_model(name) not in unread]
            shown = [name for name in names if case.in_model(name) in theirs]
            arrays = {name: array(values[name], graph.type(name).dtype) for name in shown}
            own = with_outputs(case, case.graph.nodes, shown, arrays)
            if own is not None and all(
                not arrays.keys().isdisjoint(n.outputs) for n in graph.nodes
            ):
                return own
        graph.outputs = names
        return self._exported(case, graph)

    def _exported(self, case: TestCase, graph: Graph) -> TestCase:
        """The case with another graph over its inputs and weights."""
        from nnfuzz.vary.rewrite.rewriting import (
            write_form,  # all rules, which judging does not need
        )

        values = execute(graph, tensors({**case.inputs, **case.weights}))
        given = case.weights, case.inputs, case.opset
        written = write_form(case.exporter, self.exporters, graph, *given)
        expected = {name: array(values[name], graph.type(name).dtype) for name in graph.outputs}
        return replace(
            case,
            graph=graph.view(),
            model=written.model,
            plain=written.plain,
            exporter=written.form,
            expected=expected,
        )

    def judge(
        self,
        case: TestCase,
        outputs: Mapping[Target, Mapping[str, np.ndarray]],
        only: Sequence[str] = (),
        habits: Mapping[Target, Habits] = MappingProxyType({}),
    ) -> Verdict:
        """Compares the outputs of targets with the envelope; those of native PyTorch as well.

        only: the outputs to look at; default: all. The targets of a compiler are not independent.
        habits: of compilers; the verdict says where they explain a mismatch. What onnx.reference
        contradicts on a model that no exporter wrote is no mismatch, if it is among the targets.
        """
        whole = self.load(case)

        def part(ends: Iterable[str]) -> Graph:
            return pruned(whole.values, whole.nodes, whole.inputs, whole.weights, ends)

        graph = part(only) if only else whole
        first = {name: name for name in graph.outputs}
        if len(calls := case.fed) > 1:  # equal calls have one envelope
            first = in_first_equal_call(graph.outputs, calls)
        everything = {PYTORCH: case.expected, **outputs}
        groups: dict[str, list[Target]] = {}
        for target in everything:
            groups.setdefault(target.compiler, []).append(target)
        params = {**case.inputs, **case.weights}
        once = part(first.values()) if len(calls) > 1 else graph
        bounds = enclosure(once, params, case.expected, self.edges)
        bounds = replace(bounds, envelopes={n: bounds.envelopes[own] for n, own in first.items()})
        plain = judged(bounds, everything, groups.values())
        if arbiter := next(filter(_is_arbiter, outputs), None):
            theirs = {n: a for n, a in outputs[arbiter].items() if n in graph.outputs}
            waivers = {name: self._waiver(graph, name, case.opset) for name in theirs}
            waived = {name: str(waiver) for name, waiver in waivers.items() if waiver}
            theirs = {name: a for name, a in theirs.items() if name not in waived}
            plain = without_contradicted(
                plain, bounds.envelopes, outputs, arbiter, theirs, not strange(params)
            )
            plain = replace(plain, waived=waived)
        explained = {
            target: explanation(own, graph, params, outputs[target], [m.output for m in wrong])
            for target, own in habits.items()
            if (wrong := plain.mismatches.get(target))
        }
        beside = {
            target: beside_habits(
                habits[target], graph, params, outputs[target], plain.mismatches[target]
            )
            for target, (own, _) in explained.items()
            if not own
        }
        plain = replace(plain, mismatches={**plain.mismatches, **beside})
        return replace(
            plain,
            accuracy=accuracy(bounds.envelopes, everything, plain.mismatches),
            explained={target: own for target, (own, _) in explained.items() if own},
            habitual={t: tuple(sorted(ns)) for t, (own, ns) in explained.items() if ns and not own},
        )

    def _waiver(self, graph: Graph, output: str, opset: int) -> Waiver | None:
        """The first waiver for what onnx.reference computes on the way to an output, if any is."""
        part = pruned(graph.values, graph.nodes, graph.inputs, graph.weights, [output])
        waivers = (
            waiver
            for node in part.nodes
            for waiver in self.registry.waivers.covering(
                node.op, opset, [part.type(name) for name in node.inputs]
            )
        )
        return next((w for w in waivers if w.implementation in (EVALUATOR, BODY)), None)


def _is_arbiter(target: Target) -> bool:
    """Whether it is onnx.reference on a model that no exporter wrote."""
    return target.compiler == EVALUATOR and base_form(target.form) in (DIRECT, CALLED_DIRECT)


class BenchService(ReferenceService):
    """Works on test cases that are there."""

    def __init__(self, bench: CaseBench) -> None:
        self.bench = bench

    @does(CheckCase)
    def check(self, job: CheckCase, report: Report) -> None:
        self.bench.check(job.case)

    @does(Lower)
    def lower(self, job: Lower, report: Report) -> TestCase:
        return self.bench.lower(job.case)

    @does(Expose)
    def expose(self, job: Expose, report: Report) -> TestCase:
        return self.bench.expose(job.case)

    @does(Judge)
    def judge(self, job: Judge, report: Report) -> Verdict:
        outputs = {result.target: result.outputs for result in job.results}
        habits = {result.target: result.habits for result in job.results if result.habits}
        return self.bench.judge(job.case, outputs, job.names, habits)


class LocalProducer(ProducerClient):
    """Works on test cases that are there in this process, which has PyTorch and may die of it.

    ONNX's reference evaluator, which may never end, has a process of its own, once it is needed.
    """

    def __init__(self, service: Service, server: ForkClient | None = None) -> None:
        """service: does the jobs. server: of the evaluator's process; None: a new one."""
        self._service, self._server = service, server
        self._threads: Callable[[], AbstractContextManager[None]] = nullcontext

    @classmethod
    def of(cls, config: Mapping[str, Json]) -> LocalProducer:
        """One with the operators of a written CaseConfig, in a process with other work."""
        made = cls(BenchService(CaseBench(CaseConfig.from_json(config))))
        made._threads = one_thread
        return made

    @cached_property
    def _sandbox(self) -> Sandbox:  # type: ignore[override]
        return reference_sandbox(self._server)

    def close(self) -> None:
        if "_sandbox" in vars(self):
            self._sandbox.close()

    def _call(self, job: Job[A]) -> A:
        is_evaluation = isinstance(job, ComputeReference)
        if is_evaluation:
            return super()._call(job)
        try:
            with self._threads():
                return self._service.done(job, Report())
        except Exception as error:
            raise ProducerError(f"{type(error).__name__}: {error}") from error
