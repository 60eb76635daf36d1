"""What experiments beyond reduction say of causes that several operators share."""

from dataclasses import replace
from pathlib import Path

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.writing import as_json
from nnfuzz.findings.causes import cause_of
from nnfuzz.findings.reduced import problem_of, reduced_finding
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.finding import Finding
from nnfuzz.reduction.case import ReduceConfig, reduce_case
from nnfuzz.reduction.servers import Servers
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.identity import Probe
from nnfuzz.testcase.producer import Producer
from nnfuzz.triage.keys import Key, KeyKind, have_one_cause
from tests.reduction.conftest import judged_by
from tests.reduction.faults import PLUGIN, Fault

OPERATORS = ("Softmax", "LogSoftmax", "Elu", "Selu", "MatMul", "Add")
CONFIG = CaseConfig(nodes=3, exporter="direct", operators=OPERATORS, dtypes={"float32": 1})


@pytest.fixture(scope="module")
def bench():
    registry = BackendRegistry.discover([Path(__file__).parent / "causes.py"])
    spec, producer = registry.spec("causes"), Producer(3, CONFIG)
    with Servers(spec, registry) as servers:
        yield registry, spec, producer, servers


def reduced(bench, case, causes=()):
    """The reduced finding that a case gives, and its evidence."""
    registry, spec, producer, servers = bench
    seen = judged_by(
        producer, spec, registry, servers.compilers.of(registry.get(spec.name), spec), case
    )
    if not seen.failures:
        return None
    finding = Finding(
        seen.failures[0], case, seen.outcomes, spec, as_json(CONFIG), seen.verdict, {"onnx": "x"}
    )
    problem = problem_of(finding)
    config = ReduceConfig(registry=registry, servers=servers, causes=causes)
    done = reduce_case(problem, config)
    return reduced_finding(finding, problem, done), done.diagnosis


def of(bench, operator, causes=(), explained=False):
    """The same for the first model of an operator that fails. explained: and shows why: where an
    axis has one element, or numbers agree by chance, it cannot (nnfuzz.triage.information).
    """
    producer = bench[2]
    for instance in range(8):
        key = SupportKey("direct", operator, "(float32)->float32")
        case = producer.made(Probe(key, instance))
        found = reduced(bench, case, causes)
        if found and (found[1].explanations or not explained):
            return found
    raise AssertionError(f"{operator} never fails")


def texts(evidence):
    return tuple(map(str, evidence.explanations))


def keys(finding):
    return cause_of(replace(finding, backend=None), BackendRegistry()).keys


def test_one_explanation_makes_two_operators_one_cause(bench):
    one, evidence = of(bench, "Softmax")
    assert texts(evidence) == ("Softmax ignores axis",)
    cause = cause_of(one, bench[0])
    other, evidence = of(bench, "LogSoftmax", [cause], explained=True)
    assert texts(evidence) == ("LogSoftmax ignores axis",)
    assert Key(KeyKind.CAUSE, cause.own) in evidence.keys
    assert have_one_cause(keys(one), keys(other))
    silent = replace(cause, explanations=())  # it showed too little
    _, evidence = of(bench, "LogSoftmax", [silent], explained=True)
    assert Key(KeyKind.CAUSE, cause.own) in evidence.keys


def test_one_line_that_says_the_same_of_two_operators_is_one_cause(bench):
    (one, _), (other, _) = of(bench, "Elu"), of(bench, "Selu")
    assert have_one_cause(keys(one), keys(other))


def test_an_error_behind_a_wrong_result_has_its_cause(bench):
    producer, registry = bench[2], bench[0]
    product, _ = of(bench, "MatMul")
    for index in range(60):
        case = producer.produce(index)
        operators = [node.op for node in case.graph.nodes]
        if "MatMul" not in operators or {"Elu", "Selu"} & {*operators}:
            continue
        found = reduced(bench, case)
        if found and found[0].failure.kind == "exception" and len(found[0].case.graph.nodes) > 1:
            assert found[1].follows == cause_of(product, registry).own
            assert Key(KeyKind.CAUSE, found[1].follows) in keys(found[0])
            assert have_one_cause(keys(found[0]), keys(product))
            return
    raise AssertionError("no case has an error behind a product")


@pytest.mark.slow
def test_what_an_exporter_makes_of_an_operator_is_shown_by_the_operator_that_is_wrong(bench):
    registry, spec, _, servers = bench
    config = replace(CONFIG, exporter="torchscript", operators=("Gemm",))
    producer = Producer(3, config)
    product, _ = of(bench, "MatMul")
    kinds = set()
    for instance in range(8):
        key = SupportKey("torchscript", "Gemm", "(float32)->float32")
        case = producer.made(Probe(key, instance))
        if found := reduced((registry, spec, producer, servers), case):
            finding, _ = found
            kinds.add(finding.failure.kind)
            nodes = [node.op for node in finding.case.graph.nodes]
            assert have_one_cause(keys(finding), keys(product))
            if finding.failure.kind == "mismatch":
                assert nodes == ["MatMul"] and finding.case.exporter == "direct"
    assert kinds


def test_what_is_no_graph_of_ours_is_tried_operator_by_operator(bench):
    registry, spec, _, servers = bench
    operators = ("MelWeightMatrix",)  # reads constants only, so that its graph has no inputs
    producer = Producer(3, replace(CONFIG, operators=operators))
    finding, evidence = of((registry, spec, producer, servers), *operators)
    assert [node.op for node in finding.case.graph.nodes] == ["MatMul"]
    assert texts(evidence)[0] == "MatMul returns its result transposed"


@pytest.mark.slow
def test_of_an_operator_that_is_several_of_onnx_the_wrong_one_is_shown():
    registry, config = BackendRegistry.discover([PLUGIN]), CaseConfig(exporter="direct")
    operands = (("float32", (4, 9)),)
    case = Fault("Swish", "many", operands, 40, {"alpha": 1.0}).case(Producer(0, config))
    spec = registry.spec("elements", {"op": "Sigmoid", "rule": "many"})
    with Servers(spec, registry) as servers:
        finding, _ = reduced((registry, spec, Producer(0, config), servers), case)
    assert [node.op for node in finding.case.graph.nodes] == ["Sigmoid"]
