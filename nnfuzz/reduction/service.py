"""The service inside of a reducer's worker: everything that needs torch, onnx and the specs.

Jobs, by the header's "do", beside those of nnfuzz.testcase.service:
  propose  {"case", "pass"} with the case's blobs -> {"groups": [[edit, ...], ...], "measure"}
  prepare  {"case", "edits", "below": measure or None} with the case's blobs
           -> {"case", "measure", "digest"} with blobs, or {"rejected": why}; where the exporter
           fails, the case has no model and "failed" holds {"error_type", "message", "traceback"}
  families {"operator"} -> {"families": [class, ...]}, see nnfuzz.reduction.explain.small_families
  explain  {"case", "told": hypotheses or none} with the case's blobs and one blob "target/0/NAME"
           per output -> the fields of nnfuzz.reduction.information.Explained

Edits that are no steps of reduction, but experiments (nnfuzz.reduction.diagnosis): "redrawing",
other inputs and weights by a seed; "operators", another operator at a node; "importing", the graph
that an exporter wrote, or one node of it, in the direct form, without an attribute where the value
names one; "readers" and "makers", see nnfuzz.reduction.neighbours.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import onnx

from nnfuzz.backend.target import DIRECT
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.cheap import beyond
from nnfuzz.inputs.edges import at_edges
from nnfuzz.inputs.search import NotFound, search
from nnfuzz.materialize.errors import ExportError, MaterializeError, OpsetError
from nnfuzz.materialize.exporters import all_exporters
from nnfuzz.materialize.liveness import without_dead_nodes
from nnfuzz.materialize.validity import invalid
from nnfuzz.reduction.edit import EXPERIMENTS, MERGED, Edit, groups
from nnfuzz.reduction.explain import explained, small_families, with_operator
from nnfuzz.reduction.neighbours import made_plainly, read_by
from nnfuzz.reduction.passes import applied, proposed
from nnfuzz.reduction.subject import Inapplicable, Subject
from nnfuzz.rewrite.forms import Written, parted, write
from nnfuzz.sandbox.worker import Report
from nnfuzz.testcase.case import ModelError, TestCase
from nnfuzz.testcase.foreign import case_of_model
from nnfuzz.testcase.service import BLOB, ProducerService
from nnfuzz.testcase.single_node import single_node
from nnfuzz.triage.title import needed_attributes, unwritten


class ReduceService(ProducerService):
    """A producer's service that also proposes and applies edits."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(0, config)
        self.exporters = all_exporters()

    def handle(
        self, header: Mapping[str, Any], blobs: Mapping[str, Any], report: Report
    ) -> tuple[Any, ...]:
        if header["do"] == "propose":
            subject = self._subject(TestCase.from_frame(header["case"], blobs))
            name = header["pass"]
            found = groups(proposed(subject, name), name in MERGED)
            answer = [[as_json(edit) for edit in group] for group in found]
            return {"groups": answer, "measure": subject.measure()}, {}
        if header["do"] == "prepare":
            case = TestCase.from_frame(header["case"], blobs)
            edits = [read(Edit, edit) for edit in header["edits"]]
            try:
                return self._prepared(case, edits, header["below"])
            except Inapplicable as error:
                return {"rejected": str(error)}, {}
        if header["do"] == "families":
            return {"families": small_families(header["operator"], self.producer.registry)}, {}
        if header["do"] == "explain":
            case = TestCase.from_frame(header["case"], blobs)
            subject = self._subject(case)
            mark = f"{BLOB}0/"
            outputs = {k.removeprefix(mark): v for k, v in blobs.items() if k.startswith(mark)}
            written = self._without_attributes(case, subject)
            why = explained(subject, outputs, header["told"], written)
            silent = {
                f"{subject.graph.nodes[0].op.name} ignores {n}" for n in unwritten(case.model)
            }
            held = {k: v for k, v in why.explanations.items() if k not in silent}
            return vars(replace(why, explanations=held)), {}
        return super().handle(header, blobs, report)

    def _experiment(self, case: TestCase, edit: Edit) -> Subject:
        """Raises: Inapplicable."""
        if edit.by == "importing":
            return self._imported(case, edit.target, edit.value)
        subject = self._subject(case)
        if edit.by == "redrawing":
            found = search(subject.graph, random.Random(edit.value))
            if isinstance(found, NotFound):
                raise Inapplicable(found.reason)
            inputs = found.inputs
            if subject.edges:
                inputs = at_edges(subject.graph, random.Random(edit.value), inputs)
            return replace(subject, params={**inputs, **found.weights})
        registry = self.producer.registry
        if edit.by == "readers":
            return read_by(subject, edit.target, edit.value, registry)
        if edit.by == "makers":
            return made_plainly(subject, edit.target, registry)
        try:
            other = registry.get(edit.value)
        except KeyError as error:
            raise Inapplicable(str(error)) from error
        return with_operator(subject, edit.target, other)

    def _without_attributes(self, case: TestCase, subject: Subject) -> list[tuple[str, Subject]]:
        """A model of one operator with one attribute at its default, for each that lowering sets
        and the spec does not have, and how to call that. Where lowering writes others in place of
        the spec's, as a shape for pads, each that it sets counts.
        """
        (node, *others), found = subject.graph.nodes, []
        if others or not case.model:
            return []
        indirect = not node.op.attributes.keys().isdisjoint(unwritten(case.model))
        for name in needed_attributes(case.model):
            if indirect or name not in node.op.attributes:
                with suppress(Inapplicable):
                    altered = self._imported(case, attribute=name)
                    found.append((f"{node.op.name} ignores {name}", altered))
        return found

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
            made = case_of_model(model, self.producer.registry, inputs)
        except ModelError as error:
            raise Inapplicable(str(error)) from error
        return self._subject(made)

    def _subject(self, case: TestCase) -> Subject:
        """Raises: Inapplicable where a case without numbers has no valid ones."""
        graph = self.producer.load(case)
        params = {**case.inputs, **case.weights}
        if not params.keys() >= {*graph.inputs, *graph.weights}:
            # An exporter's failure: the numbers do not matter, but the module must run.
            found = search(graph, random.Random(0))
            if isinstance(found, NotFound):
                raise Inapplicable(found.reason)
            params = {**found.inputs, **found.weights}
        return Subject(graph, params, case.exporter, self.producer.edges or beyond(params))

    def _prepared(
        self, case: TestCase, edits: list[Edit], below: list[int] | None
    ) -> tuple[Any, ...]:
        if edits and edits[0].by in EXPERIMENTS:
            subject = self._experiment(case, edits[0]).checked()
        else:
            subject = self._subject(case)
            subject = applied(subject, edits) if edits else subject
        measure = subject.measure()
        if below is not None and not list(measure) < below:
            raise Inapplicable("not simpler")
        answer = {"measure": measure, "digest": subject.digest()}
        if not edits and case.model:
            header, blobs = case.to_frame()
            return {"case": header, **answer}, blobs
        written, failed = self._exported(case, subject)
        if written.model and (why := invalid(written.model)) and not invalid(case.model):
            raise Inapplicable(f"ONNX's checker rejects the model: {why}")
        subject = replace(subject, exporter=written.form)
        answer = {"measure": subject.measure(), "digest": subject.digest()}
        opset = self._opset(case, subject)
        header, blobs = _as_case(case, subject, written, opset).to_frame()
        return {"case": header, "failed": failed, **answer}, blobs

    def _opset(self, case: TestCase, subject: Subject) -> int:
        return min(case.opset, self.exporters[parted(subject.exporter)[0]].opsets[1])

    def _exported(self, case: TestCase, subject: Subject) -> tuple[Written, dict[str, str] | None]:
        """The model, or b"" and how the exporter failed. Raises: Inapplicable if we failed."""
        weights = {name: subject.params[name] for name in subject.graph.weights}
        given = weights, subject.params, self._opset(case, subject)
        try:
            written = write(subject.exporter, self.exporters, subject.graph, *given)
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


def describe(error: ExportError) -> dict[str, str]:
    """What nnfuzz.triage.signature.export_failure takes, as the producer tells it."""
    return {
        "error_type": type(error).__name__,
        "message": str(error),
        "traceback": "".join(traceback.format_exception(error)),
    }


def reduce_service(config: Mapping[str, Any]) -> ReduceService:
    """The factory that sandboxes name: "nnfuzz.reduction.service:reduce_service"."""
    return ReduceService(config)
