"""The service inside of a reducer's worker: everything that needs torch, onnx and the specs."""

from __future__ import annotations

import gc
import random
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import onnx

from nnfuzz.backend.numeric import beyond
from nnfuzz.backend.target import DIRECT
from nnfuzz.base.code_paths import CodePaths
from nnfuzz.base.reading import Json
from nnfuzz.inputs.edges import at_edges
from nnfuzz.inputs.search import NotFound, search
from nnfuzz.materialize.errors import ExportError, MaterializeError, OpsetError
from nnfuzz.materialize.liveness import without_dead_nodes
from nnfuzz.materialize.validity import invalid
from nnfuzz.reduction.candidate import (
    Explain,
    Explained,
    ExporterError,
    ListFamilies,
    Prepare,
    Prepared,
    Propose,
    Rejected,
)
from nnfuzz.reduction.edit import EXPERIMENTS, MERGED, Edit, Group, groups
from nnfuzz.reduction.explain import Altered, explained, read_by, small_families
from nnfuzz.reduction.passes import applied, proposed
from nnfuzz.reduction.subject import Inapplicable, Subject
from nnfuzz.sandbox.job import Report, does
from nnfuzz.testcase.bench import COLLECTED, BenchService, CaseBench
from nnfuzz.testcase.case import CaseConfig, ModelError, TestCase
from nnfuzz.testcase.extraction import single_node
from nnfuzz.testcase.foreign import case_of_model
from nnfuzz.triage.headline import needed_attributes, unwritten
from nnfuzz.triage.keys import Claim, Hypothesis
from nnfuzz.vary.rewrite.rewriting import Written, parse_form, write_form


class ReduceService(BenchService):
    """Proposes and applies edits to test cases."""

    def __init__(self, config: Mapping[str, Json]) -> None:
        written = CaseConfig.from_json(config)
        super().__init__(CaseBench(written))
        self.newest = written.newest
        self.exporters = self.bench.exporters

    @does(Propose)
    def propose(self, job: Propose, report: Report) -> list[Group]:
        return list(groups(proposed(self._subject(job.case), job.by), job.by in MERGED))

    @does(Prepare)
    def prepare(self, job: Prepare, report: Report) -> Prepared | Rejected:
        try:
            return self._prepared(job.case, job.edits, job.below)
        except Inapplicable as error:
            return Rejected(str(error) or "rejected")

    @does(ListFamilies)
    def families(self, job: ListFamilies, report: Report) -> list[str]:
        return small_families(job.operator, self.bench.registry, job.attribute)

    @does(Explain)
    def explain(self, job: Explain, report: Report) -> Explained:
        subject = self._subject(job.case)
        written = self._without_attributes(job.case, subject)
        try:
            why = explained(subject, job.outputs, job.among, written)
        except Inapplicable:  # an operator is undefined for these inputs
            return Explained({}, 0, [])
        operator = subject.graph.nodes[0].op.name
        names = unwritten(job.case.model)
        silent = {Hypothesis(Claim.IGNORES, operator, name) for name in names}
        held = {claim: own for claim, own in why.explanations.items() if claim not in silent}
        return replace(why, explanations=held)

    def _experiment(self, case: TestCase, edit: Edit) -> Subject:
        """Raises: Inapplicable."""
        if edit.by == "importing":
            return self._imported(case, edit.target, edit.value)
        subject = self._subject(case)
        if edit.by == "redrawing":
            searched = search(subject.graph, random.Random(edit.value))
            if isinstance(searched, NotFound):
                raise Inapplicable(searched.reason)
            inputs = searched.inputs
            if subject.edges:
                inputs = at_edges(subject.graph, random.Random(edit.value), inputs)
            return replace(subject, params={**inputs, **searched.weights})
        return read_by(subject, edit.target, edit.value, self.bench.registry)

    def _without_attributes(self, case: TestCase, subject: Subject) -> Altered:
        """A model of one operator with one attribute at its default, for each that lowering sets
        and the spec does not have, and how to call that. Where lowering writes others in place of
        the spec's, as a shape for pads, each that it sets counts.
        """
        node, *others = subject.graph.nodes
        altered_subjects: list[tuple[Hypothesis, Subject]] = []
        if others or not case.model:
            return []
        indirect = not node.op.attributes.keys().isdisjoint(unwritten(case.model))
        for name in needed_attributes(case.model):
            if indirect or name not in node.op.attributes:
                with suppress(Inapplicable):
                    altered = self._imported(case, attribute=name)
                    altered_subjects.append(
                        (Hypothesis(Claim.IGNORES, node.op.name, name), altered)
                    )
        return altered_subjects

    def _imported(self, case: TestCase, output: str = "", attribute: str | None = None) -> Subject:
        """What computes a value; the whole model where none is named, its operators without an
        attribute if one is. Raises: Inapplicable.
        """
        model, inputs = onnx.load_model_from_string(case.model), case.inputs
        if attribute:
            _leave_out(model, attribute)
        try:
            if output:
                model, inputs = single_node(model, inputs, output)
            made = case_of_model(model, self.bench.registry, inputs)
        except ModelError as error:
            raise Inapplicable(str(error)) from error
        return self._subject(made)

    def _subject(self, case: TestCase) -> Subject:
        """Raises: Inapplicable where a case without numbers has no valid ones."""
        graph = self.bench.load(case)
        params = {**case.inputs, **case.weights}
        if not params.keys() >= {*graph.inputs, *graph.weights}:
            # An exporter's failure: the numbers do not matter, but the module must run.
            searched = search(graph, random.Random(0))
            if isinstance(searched, NotFound):
                raise Inapplicable(searched.reason)
            params = {**searched.inputs, **searched.weights}
        edges = self.bench.edges or beyond(params)
        return Subject(graph, params, case.exporter, edges, case.opset, self.newest)

    def _prepared(self, case: TestCase, edits: Group, below: tuple[int, ...] | None) -> Prepared:
        if edits and edits[0].by in EXPERIMENTS:
            subject = self._experiment(case, edits[0]).checked()
        else:
            subject = self._subject(case)
            subject = applied(subject, edits) if edits else subject
        measure = subject.measure()
        if below is not None and not measure < below:
            raise Inapplicable("not simpler")
        if not edits and case.model:
            return Prepared(case, measure, subject.digest())
        written, failed = self._exported(subject)
        if written.model and (why := invalid(written.model)) and not invalid(case.model):
            raise Inapplicable(f"ONNX's checker rejects the model: {why}")
        subject = replace(subject, exporter=written.form)
        made = _as_case(case, subject, written, self._opset(subject))
        return Prepared(made, subject.measure(), subject.digest(), failed)

    def _opset(self, subject: Subject) -> int:
        return min(subject.opset, self.exporters[parse_form(subject.exporter)[0]].opsets[1])

    def _exported(self, subject: Subject) -> tuple[Written, ExporterError | None]:
        """The model, or b"" and how the exporter failed. Raises: Inapplicable if we failed."""
        weights = {name: subject.params[name] for name in subject.graph.weights}
        given = weights, subject.params, self._opset(subject)
        try:
            written = write_form(subject.exporter, self.exporters, subject.graph, *given)
            if subject.exporter == DIRECT:
                written = replace(written, model=without_dead_nodes(written.model))
            return written, None
        except ExportError as error:
            return Written(b"", subject.exporter), describe(error)
        except (MaterializeError, OpsetError) as error:
            raise Inapplicable(str(error)) from error


def _leave_out(model: onnx.ModelProto, attribute: str) -> None:
    """Leaves an attribute out of all nodes, and the shapes that may follow from it."""
    for node in model.graph.node:
        rest = [given for given in node.attribute if given.name != attribute]
        del node.attribute[:]
        node.attribute.extend(rest)
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")


def _as_case(case: TestCase, subject: Subject, written: Written, opset: int) -> TestCase:
    graph = subject.graph
    return replace(
        case,
        graph=graph.view(),
        model=written.model,
        plain=written.plain,
        inputs={name: subject.params[name] for name in graph.inputs},
        weights={name: subject.params[name] for name in graph.weights},
        expected={name: subject.values[name] for name in graph.outputs},
        exporter=subject.exporter,
        opset=opset,
    )


def describe(error: ExportError) -> ExporterError:
    trace = "".join(traceback.format_exception(error))
    return ExporterError(type(error).__name__, *map(CodePaths.here().foreign, (str(error), trace)))


def reduce_service(config: Mapping[str, Json]) -> ReduceService:
    """The factory that sandboxes name: "nnfuzz.reduction.service:reduce_service"."""
    gc.set_threshold(*COLLECTED)
    return ReduceService(config)
