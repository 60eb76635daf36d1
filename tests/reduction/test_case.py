"""Reduction end to end: small results, the same failure, the same answer for any workers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnfuzz.backend.plugin_files import namesake
from nnfuzz.base.writing import as_json
from nnfuzz.findings.folder import read_finding, write_finding
from nnfuzz.findings.reduced import reduce_folder
from nnfuzz.reduction.case import NotReduced, Problem, ReduceConfig, reduce_case
from nnfuzz.reduction.passes import PASSES, applied
from nnfuzz.reduction.subject import Subject
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.producer import Producer
from nnfuzz.triage.signature import export_failure
from tests.reduction.conftest import finding_of


def test_ten_nodes_become_two(reductions):
    for done in reductions:
        assert done.before[0] == 10
        nodes = done.case.graph.nodes
        assert sorted(node.op for node in nodes) == ["Add", "Mul"]


def test_everything_else_becomes_as_simple_as_can_be(reductions):
    for done in reductions:
        case = done.case
        shapes = [shape for shape in case.graph.shapes.values()]
        assert all(np.prod(shape, dtype=int) == 1 for shape in shapes)
        assert {dtype for dtype in case.graph.dtypes.values()} == {"float32"}
        assert not case.weights
        assert all((array == 0).all() for array in case.inputs.values())


def test_counters_add_up(reductions):
    for done in reductions:
        assert sum(counter.run for counter in done.counters.values()) == done.run
        assert any(counter.accepted for counter in done.counters.values())


def test_a_reduction_comes_to_the_same_again(findings, reductions, reduced):
    again = reduced(findings[0])
    assert again.case.graph == reductions[0].case.graph
    assert again.case.model == reductions[0].case.model
    assert again.run == reductions[0].run


@pytest.mark.parametrize("budget", [1, 7])
def test_a_budget_holds_and_the_result_still_fails(findings, reduced, budget):
    done = reduced(findings[1], ReduceConfig(budget))
    assert done.run <= budget
    assert done.after <= done.before
    assert done.confirmed == 3


def test_an_exception_keeps_its_message(producer, registry, server, reduced):
    options = {"raises": True, "where": "always"}
    made = (finding_of(producer, registry, server, i, **options) for i in range(1600))
    finding = next(f for f in made if f is not None)
    done = reduced(finding)
    assert done.after[0] == 2
    assert done.failure.signature.hash == finding.failure.signature.hash
    assert {o.level for o in done.best.outcomes} == {"O0", "O1"}
    assert done.counters["halves"].proposed and done.run < 60


def test_the_last_half_goes_first(producer):
    case = producer.produce(3)
    subject = Subject(producer.load(case), {**case.inputs, **case.weights})
    edits = list(PASSES["halves"].propose(subject))
    sizes = [len(applied(subject, [edit]).graph.nodes) for edit in edits]
    assert sizes == [5, 8, 9]
    kept = {name for node in subject.graph.nodes[:5] for name in node.outputs}
    assert set(edits[0].value) <= kept


def test_a_folder_gets_a_reduced_finding_inside(tmp_path, findings, registry, servers):
    folder = write_finding(tmp_path / "f", findings[0])
    config = ReduceConfig(registry=registry, servers=servers)
    trusted = namesake(findings[0].backend.plugins)
    done, _ = reduce_folder(folder, config, trusted=trusted)
    reduced = read_finding(folder / "reduced")
    assert reduced.case.graph == done.case.graph
    assert reduced.localisation["passes"] == ["FuseMulAdd"]
    report = (folder / "reduced" / "report.md").read_text()
    assert "Accused: optimiser (FuseMulAdd)" in report
    assert "| `FuseMulAdd` | ok |" in report
    assert "Reduced from 10 operators to 2" in report
    assert reduced.origin.reduction.nodes == (10, 2)
    assert reduced.origin.reduced_from.hash == findings[0].signature.hash
    reduce_folder(folder, replace(config, budget=3), trusted=trusted)
    assert read_finding(folder / "reduced").origin.reduction.candidates <= 3


def test_a_failure_that_is_gone_is_no_reduction(findings, registry, reduced):
    fixed = registry.spec("planted", {"where": "never"})
    with pytest.raises(NotReduced, match="does not reproduce: no failure"):
        reduced(findings[0], ReduceConfig(), fixed)


def test_a_failure_that_needs_many_nodes_keeps_them(producer, registry, server, reduced):
    """More than the sub-graphs that are tried by themselves: single nodes go instead."""
    made = (finding_of(producer, registry, server, i, least=6) for i in range(1600))
    finding = next(f for f in made if f is not None)
    done = reduced(finding)
    assert done.after[0] in (5, 6)
    assert done.confirmed == 3
    assert done.before[0] == 10


def test_an_exporters_failure_is_reduced_without_a_backend():
    config = CaseConfig(
        nodes=8,
        operators=("Add", "Mul", "Relu", "Transpose", "Concat", "Bessel"),
        plugins=(str(Path(__file__).parent / "unexportable.py"),),
    )
    producer = Producer(3, config)
    failed = next(f for f in map(producer.produce, range(100)) if isinstance(f, NotProduced))
    assert failed.stage == "export"
    failure = export_failure("torchscript", failed.error_type, failed.message, failed.traceback)
    case = TestCase(failed.id, failed.graph, b"", {}, {}, {}, "torchscript", config.opset)
    done = reduce_case(Problem(case, failure, None, as_json(config)))
    assert [node.op for node in done.case.graph.nodes] == ["Bessel"]
    assert done.failure.signature.hash == failure.signature.hash
    assert done.confirmed == 3
