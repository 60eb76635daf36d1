"""Test cases are reduced: graphs, inputs, and what is compared with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry, namesake
from nnfuzz.base.writing import as_json
from nnfuzz.compare.flip import NOBODY
from nnfuzz.experiment.compilers import examine
from nnfuzz.experiment.judge import accused_by
from nnfuzz.findings.folder import read_finding, write_finding
from nnfuzz.findings.reduced import reduce_folder
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.records.rows import NOT_SHOWN
from nnfuzz.reduction.candidate import failure_key
from nnfuzz.reduction.case import NotReduced, NotShown, Problem, ReduceConfig, reduce_case
from nnfuzz.reduction.edit import Edit
from nnfuzz.reduction.passes import PASSES, applied
from nnfuzz.reduction.subject import Inapplicable, Subject
from nnfuzz.reduction.trials import Servers
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.testcase.producer import Producer
from nnfuzz.triage.signature import export_failure, failures
from tests.backend.releases import ADAPTER, use_index
from tests.reduction.conftest import finding_of, judged_by
from tests.reduction.faults import FAULTS, PLUGIN, Fault, elements
from tests.triage.test_signature import crashed, failed, outcome


def test_ten_nodes_become_two(reductions):
    for done in reductions:
        assert done.figures.nodes[0] == 10
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


def test_a_reduction_comes_to_the_same_again(findings, reductions, reduced):
    again = reduced(findings[0])
    assert again.case.graph == reductions[0].case.graph
    assert again.case.model == reductions[0].case.model
    assert again.figures.candidates == reductions[0].figures.candidates


@pytest.mark.parametrize("budget", [1, 7])
def test_a_budget_holds_and_the_result_still_fails(findings, reduced, budget):
    done = reduced(findings[1], ReduceConfig(budget))
    assert done.figures.candidates <= budget
    assert done.figures.nodes[1] <= done.figures.nodes[0]
    assert done.figures.confirmed == (3, 3)


def test_an_exception_keeps_its_message(producer, registry, server, reduced):
    options = {"raises": True, "where": "always"}
    made = (finding_of(producer, registry, server, i, **options) for i in range(1600))
    finding = next(f for f in made if f is not None)
    done = reduced(finding)
    assert done.figures.nodes[1] == 2
    assert done.failure.signature.hash == finding.failure.signature.hash
    assert {o.level for o in done.best.outcomes} == {"O0", "O1"}
    assert done.figures.candidates < 60


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
    with pytest.raises(NotShown, match=f"^{NOT_SHOWN}: no failure"):
        reduced(findings[0], ReduceConfig(), fixed)


def test_a_failure_that_needs_many_nodes_keeps_them(producer, registry, server, reduced):
    """More than the sub-graphs that are tried by themselves: single nodes go instead."""
    made = (finding_of(producer, registry, server, i, least=6) for i in range(1600))
    finding = next(f for f in made if f is not None)
    done = reduced(finding)
    assert done.figures.nodes[1] in (5, 6)
    assert done.figures.confirmed == (3, 3)
    assert done.figures.nodes[0] == 10


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
    assert done.figures.confirmed == (3, 3)


# Whether a candidate still fails in the same way.


def test_the_failure_stays_the_same_and_occurs_in_fresh_processes(findings, reductions):
    for finding, done in zip(findings, reductions):
        before = failure_key(finding.failure, finding.blame, finding.outcomes)
        after = failure_key(done.failure, done.best.blame(done.failure), done.best.outcomes)
        assert after == before
        assert done.figures.confirmed == (3, 3)


def test_a_level_that_fails_in_another_way_does_not_tell_the_optimiser_apart():
    ran = [failed("O0", "bad asin"), failed("O1", "bad acos")]
    _, acos = failures(ran)
    alone = [failed("O0", "bad acos"), failed("O1", "bad acos")]
    assert failure_key(acos, None, ran) == failure_key(failures(alone)[0], None, alone)
    fine = [outcome("O0"), failed("O1", "bad acos")]
    assert failure_key(failures(fine)[0], None, fine) != failure_key(acos, None, ran)


def test_a_function_that_is_named_after_the_nth_node_keeps_the_failure():
    def key(n, place="normalise"):
        trace = f"bad axis\n   1: toy::{place}\n   2: <toy::Pass{n} as toy::Run>::call\n"
        ran = [failed("O0", trace)]
        return failure_key(failures(ran)[0], None, ran)

    assert key(29) == key(8) != key(8, "resolve")


def test_a_level_that_does_not_take_the_whole_case_need_not_refuse_a_candidate():
    ran = [failed("O0", "bad acos"), outcome("O1", OutcomeKind.UNSUPPORTED)]
    fine = [failed("O0", "bad acos"), outcome("O1")]
    whole, part = (failures(outcomes)[0] for outcomes in (ran, fine))
    wanted = failure_key(whole, NOBODY, ran, ["O1"])
    assert failure_key(part, NOBODY, fine, ["O1"]) == wanted
    assert failure_key(whole, NOBODY, ran) != failure_key(part, NOBODY, fine)


def test_where_the_least_optimised_level_says_nothing_a_candidate_may_tell():
    silent = outcome("O0", OutcomeKind.UNSUPPORTED)
    ran = [silent, crashed("O1")]
    (whole,) = failures(ran)
    wanted = failure_key(whole, NOBODY, ran, ["O0"])
    for first in (outcome("O0"), crashed("O0")):
        outcomes = [first, crashed("O1")]
        (failure,) = failures(outcomes)
        blame = accused_by(outcomes, None, failure)
        assert failure_key(failure, blame, outcomes, ["O0"]) == wanted


def test_misused_memory_may_show_in_any_way():
    ways = [
        [crashed("O0"), outcome("O1")],
        [outcome("O0"), crashed("O1", "double free or corruption (out)", "SIGABRT")],
    ]
    keys = [failure_key(failures(ran)[0], NOBODY, ran) for ran in ways]
    assert (
        keys[0]
        == keys[1]
        != failure_key(failures(ran := [crashed("O0", "", "SIGFPE")])[0], NOBODY, ran)
    )


# The graph and arrays that edits change.


def test_a_body_without_steps_passes_its_arguments_on(subject):
    for _ in range(4):
        edits = [e for e in PASSES["attributes"].propose(subject) if "branch" in e.value[0]]
        for edit in edits:
            try:
                made = applied(subject, [edit])
            except Inapplicable:
                continue
            if made.measure() < subject.measure():
                subject = made
                break
    assert sum(len(b.steps) for b in subject.graph.nodes[1].op.bodies) == 0


def test_indices_may_be_computed_if_they_are_in_range():
    registry = OpRegistry.load()
    x, indices = TensorType(DType.FLOAT32, (4,)), TensorType(DType.INT64, (4,))
    counted = registry.get("Range").from_json(
        {"dtype": {"dtype": "int64"}, "axis": 0, "start": 0, "delta": 1, "source": "computed"}
    )
    gathered = registry.get("Gather").from_json({"axis": 0})
    values = {n: Value(n, t) for n, t in {"x": x, "i": indices, "y": x}.items()}
    nodes = [Node(counted, ("x",), ("i",)), Node(gathered, ("x", "i"), ("y",))]
    graph = Graph(values, nodes, ["x"], [], ["y"])
    given = {"x": np.arange(4, dtype=np.float32)}
    np.testing.assert_array_equal(Subject(graph, given, "direct").values["y"], given["x"])
    counted.start = 1
    with pytest.raises(Inapplicable):
        _ = Subject(graph, given, "direct").values


# A reduction of what only one release gets wrong keeps that the other one is right.


def test_what_fails_in_both_is_no_candidate(release_index, monkeypatch):
    use_index(monkeypatch, release_index, release_index.parent / "cache")
    registry = BackendRegistry.discover([ADAPTER])
    settings = CaseConfig(nodes=3, exporter="direct", opset=18, operators=("Add", "Neg"))
    producer = Producer(0, settings)
    case = next(c for i in range(9) if isinstance(c := producer.produce(i), TestCase))
    spec = registry.parse("toyrel@1.0")
    failure = judged_by(producer, spec, registry, None, case).failures[0]
    right = replace(registry.parse("toyrel@2.0"), label="toyrel@2.0")
    problem = Problem(case, failure, spec, as_json(settings), rival=right)
    config = ReduceConfig(60, registry=registry)
    assert reduce_case(problem, config).figures.nodes[1] == 1
    wrong = replace(problem, rival=replace(spec, label="toyrel@1.0"))
    with pytest.raises(NotReduced, match="does not reproduce"):
        reduce_case(wrong, config)


# Tensors get small, and numbers few, where a fault depends on elements, sizes or numbers.


CONFIG = CaseConfig(exporter="direct")


@pytest.fixture(scope="module")
def maker():
    return Producer(0, CONFIG)


@pytest.fixture(scope="module")
def shrunk(maker):
    """Reduces a planted fault, with further options of the backend."""
    registry = BackendRegistry.discover([PLUGIN])
    with (
        Servers(registry.spec("elements", {}), registry) as servers,
        ProducerClient(0, as_json(CONFIG), servers.service) as client,
    ):

        def reduce(fault: Fault, **options):
            plain, case = registry.spec("elements", fault.options), fault.case(maker)
            spec = registry.spec("elements", {**fault.options, **options})
            with servers.compilers.runner(plain, registry) as runner:
                (failure,) = examine(case, runner, client).failures
            problem = Problem(case, failure, spec, as_json(CONFIG))
            return reduce_case(problem, ReduceConfig(registry=registry, servers=servers))

        yield reduce


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.op}-{f.rule}-{len(f.operands[0][1])}")
def test_the_elements_and_sizes_that_matter_are_what_is_left(fault, shrunk):
    done = shrunk(fault)
    assert elements(done.case) <= 1.4 * fault.least
    numbers = {x for a in done.case.inputs.values() for x in a.ravel().tolist()}
    assert len(numbers) <= 2
    assert done.figures.candidates <= 80 and done.figures.confirmed == (3, 3)
    assert done.figures.elements[1] == elements(done.case)


def test_what_holds_in_no_fresh_process_gives_way_to_what_does(shrunk):
    fault = next(fault for fault in FAULTS if (fault.op, fault.rule) == ("Abs", "magic"))
    done = shrunk(fault, flaky=20)
    (array,) = done.case.inputs.values()
    assert done.figures.confirmed == (3, 3) and array.size > 20
    assert (array != 0).sum() == 1
    with pytest.raises(NotReduced):
        shrunk(fault, flaky=10_000)


@pytest.fixture(scope="module")
def product(maker):
    """y = a * b with a of 4 x 6 and b of 6 elements."""
    fault = Fault("Mul", "magic", (("float32", (4, 6)), ("float32", (6,))), 2)
    case = fault.case(maker)
    return Subject(Graph.of(case.graph, maker.registry.get), case.inputs)


def test_a_window_is_around_the_failing_element_in_every_operand(product):
    made = applied(product, [Edit("shrinking", "*", [1, ["y", [3, 4]]])])
    assert made.params["x0"].tolist() == [[product.params["x0"][3, 4]]]
    assert made.params["x1"].tolist() == [product.params["x1"][4]]
    last = applied(product, [Edit("shrinking", "x0.1", [4, "tail"])])
    assert last.params["x0"].tolist() == product.params["x0"][:, 2:].tolist()


def test_all_but_the_operand_of_the_failing_element_become_zero(product):
    made = applied(product, [Edit("numbers", "x1", ["zeros", 0, 6, ["y", [3, 4]]])])
    expected = [0, 0, 0, 0, product.params["x1"][4], 0]
    assert made.params["x1"].tolist() == expected


@pytest.mark.parametrize("by, value", [("shrinking", [1]), ("numbers", ["zeros", 0, 6])])
def test_edits_about_an_element_that_is_gone_do_not_fit(by, value, product):
    target = "*" if by == "shrinking" else "x1"
    with pytest.raises(Inapplicable, match="z"):
        applied(product, [Edit(by, target, [*value, ["z", [0, 0]]])])
