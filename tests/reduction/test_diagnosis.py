"""Diagnosis: which operator, constant or attribute a failure is due to."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16

from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.target import Target
from nnfuzz.base.writing import as_json
from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.mismatch import Element, Mismatch, MismatchKind, Verdict
from nnfuzz.findings.reduced import cause_of, problem_of, reduced_finding
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.ir.types import TensorType
from nnfuzz.ir.view import NodeView
from nnfuzz.records.finding import Finding
from nnfuzz.reduction.candidate import CandidateQuestion, Explain, bits, differences, enough
from nnfuzz.reduction.case import CONFIRMATIONS, ReduceConfig, _confirming, _shortened, reduce_case
from nnfuzz.reduction.diagnosis import _in_family, diagnose
from nnfuzz.reduction.experiments import (
    CONSTANT,
    OPERANDS,
    _is_of,
    healed,
    narrowest_cause,
    shared_key,
)
from nnfuzz.reduction.explain import explained, family_of, read_by, small_families
from nnfuzz.reduction.service import ReduceService
from nnfuzz.reduction.subject import Subject
from nnfuzz.reduction.trials import Servers
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.identity import Numbered, Probe
from nnfuzz.testcase.producer import Producer
from nnfuzz.triage.cause import Cause
from nnfuzz.triage.keys import Claim, Hypothesis, Key, KeyKind, have_one_cause
from nnfuzz.triage.signature import failures
from tests.inputs.graphs import REGISTRY
from tests.reduction.conftest import judged_by
from tests.reduction.faults import PLUGIN, Fault
from tests.reduction.test_known import Tried, fails
from tests.triage.test_cause import graph, mismatch, single
from tests.triage.test_signature import failed, outcome

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
    assert have_one_cause(keys(one), keys(other))


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


# What explains a wrong result: attributes, inputs and digits that are ignored, tested by NumPy.


X = np.array([[0.1, 2.0, 0.7], [1.5, -0.3, 0.2]])


def subject(operator, *arrays, **attributes):
    op = REGISTRY.get(operator)(**attributes)
    names = [f"x{i}" for i in range(len(arrays))]
    types = [TensorType(DType.of(a.dtype), a.shape) for a in arrays]
    (result,) = op.type_transfer(*types)
    values = {n: Value(n, t) for n, t in zip([*names, "y"], [*types, result])}
    graph = Graph(values, [Node(op, tuple(names), ("y",))], names, [], ["y"])
    return Subject(graph, dict(zip(names, arrays)))


def consistent(made, outputs, told=()):
    held = list(map(Hypothesis.parse, told))
    return list(map(str, explained(made, outputs, held).explanations))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def test_an_attribute_that_is_ignored():
    x = X.astype(np.float32)
    made = subject("Softmax", x, axis=0)
    assert consistent(made, {"y": softmax(x, 1)}) == ["Softmax ignores axis"]
    assert consistent(made, {"y": softmax(x, 0)}) == []
    assert consistent(made, {"y": softmax(x, 1) * np.float32(1.01)}) == []


def test_digits_that_are_lost():
    made = subject("Exp", X)
    found = consistent(made, {"y": np.exp(X.astype(np.float32)).astype(np.float64)})
    assert found == ["float64 is computed in float32"]


def test_an_approximation_is_not_taken_for_a_narrower_type():
    x = X.astype(np.float32)
    made = subject("Exp", x)
    near = np.exp(x).astype(np.float32) * np.float32(1 + 2**-10)
    assert consistent(made, {"y": near}) == []
    rounded = np.exp(x).astype(bfloat16).astype(np.float32)
    assert consistent(made, {"y": rounded}) == ["float32 is computed in bfloat16"]


def test_other_inputs_refute_what_predicts_something_else():
    x = X.astype(np.float32)
    made, told = subject("Softmax", x, axis=0), ["Softmax ignores axis"]
    assert consistent(made, {"y": softmax(x, 1)}, told) == told
    assert consistent(made, {"y": softmax(x, 0)}, told) == []
    assert consistent(made, {"y": softmax(x, 0)}, ["Softmax returns 0"]) == ["Softmax returns 0"]
    assert consistent(made, {"y": softmax(x, 0)}, ["float32 is computed in bfloat16"]) == []


def test_how_all_elements_differ():
    x = np.array([3, -2, 5])
    made = subject("Sign", x)
    assert consistent(made, {"y": -np.sign(x)}) == ["Sign has the opposite sign"]
    assert consistent(made, {"y": np.sign(x) + 1}) == ["Sign is one too large"]
    assert consistent(made, {"y": x}) == ["Sign returns input 0"]
    assert consistent(made, {"y": np.zeros_like(x)}) == ["Sign returns 0"]
    assert consistent(made, {"y": np.array([1, -1, 0])}) == []


def test_operators_that_are_left_out():
    op, x = REGISTRY.get("Transpose"), np.arange(24.0).reshape(2, 3, 4)
    types = {"x": TensorType(DType.FLOAT64, x.shape)}
    nodes = [Node(op(perm=(1, 2, 0)), ("x",), ("y",)), Node(op(perm=(0, 2, 1)), ("y",), ("z",))]
    for node in nodes:
        (types[node.outputs[0]],) = node.op.type_transfer(types[node.inputs[0]])
    graph = Graph({n: Value(n, t) for n, t in types.items()}, nodes, ["x"], [], ["z"])
    made, y = Subject(graph, {"x": x}), x.transpose(1, 2, 0)
    assert consistent(made, {"z": x}) == ["Transpose returns input 0 of the Transpose before it"]
    assert consistent(made, {"z": y}) == [
        "Transpose returns input 0",
        "Transpose returns its result transposed",
    ]


def test_an_attribute_that_decides_on_the_shape():
    made = subject("ReduceMax", X, axes=(1,), keepdims=0)
    assert "ReduceMax ignores keepdims" in consistent(made, {"y": X.max(1, keepdims=True)})


def test_a_coarse_type_shows_in_every_result():
    made = subject("Exp", X.astype(np.float32))
    short = np.exp(X).astype(bfloat16).astype(np.float32)
    assert consistent(made, {"y": short}) == ["float32 is computed in bfloat16"]
    assert consistent(made, {"y": np.exp(X).astype(np.float32) * np.float32(1.001)}) == []


def test_another_dtype_is_its_own_explanation():
    made = subject("IsNaN", X)
    assert consistent(made, {"y": np.isnan(X).astype(np.int8)}) == ["IsNaN returns int8 for bool"]


def test_the_same_numbers_in_another_form():
    made = subject("GlobalMaxPool", np.arange(12.0).reshape(1, 3, 2, 2))
    assert consistent(made, {"y": np.array([[3.0, 7.0, 11.0]])}) == [
        "GlobalMaxPool loses axes of size 1"
    ]
    made = subject("Exp", X)
    assert consistent(made, {"y": np.exp(X).T}) == ["Exp returns its result transposed"]
    assert consistent(made, {"y": np.exp(X)[None]}) == ["Exp adds axes of size 1"]
    assert consistent(made, {"y": np.exp(X).reshape(3, 2)}) == []


def test_another_shape_without_a_reason():
    assert consistent(subject("Exp", X), {"y": X[:1]}) == []


def test_an_attribute_belongs_to_the_class_that_declares_it():
    names = ("Softmax", "LogSoftmax")
    claims = [Hypothesis(Claim.IGNORES, name, "axis") for name in names]
    one, other = (family_of(claim, subject(claim.subject, X, axis=0)) for claim in claims)
    assert one == other and (one.claim, one.detail) == (Claim.IGNORES, "axis")
    assert one.subject not in ("", *names)


def test_operators_whose_shapes_come_of_one_class_lose_axes_for_one_cause():
    names = ("ReduceL1", "ReduceLogSumExp")
    claims = [Hypothesis(Claim.AXES, name, "loses") for name in names]
    reduced = {"axes": (0,), "keepdims": 1}
    one, other = (family_of(claim, subject(claim.subject, X, **reduced)) for claim in claims)
    assert one == other and one.subject not in names
    alone = Hypothesis(Claim.AXES, "Transpose", "moves")
    assert family_of(alone, subject("Transpose", X, perm=(1, 0))) == alone


def test_a_switch_that_is_off_may_be_taken_for_one_that_is_on():
    x, router = np.ones((1, 1), np.float32), np.array([[1.0, 0.0]], np.float32)
    weights = np.array([[[1.0]], [[3.0]]], np.float32)
    options = {"alpha": 1.0, "beta": 0.0, "limit": None, "activation": "relu", "per": 1}
    named = "com.microsoft.MoE"
    made = subject(named, x, router, weights, weights, **options, normalize_routing_weights=0)
    assert consistent(made, {"y": x}) == [f"{named} ignores normalize_routing_weights"]


def test_infinities_are_explained_where_the_subject_is_at_edges():
    x = np.array([np.inf, -np.inf, np.inf, -np.inf], np.float32)
    made = replace(subject("Neg", x), edges=True)
    found = explained(made, {"y": x})
    assert "Neg returns input 0" in map(str, found.explanations)
    assert found.differences and not explained(made, {"y": -x}).differences


def test_another_dtype_does_not_hide_wrong_values():
    found = consistent(subject("IsNaN", X), {"y": np.ones(X.shape, np.int8)})
    assert found == ["IsNaN returns int8 for bool, with wrong values"]


# Reduction keeps the operator at which a wrong result begins, and makes valid models alone.


def two_causes(producer, first, second) -> TestCase:
    """A model with LogSoftmax along axis 0 and MatMul, each of an input of its own. first, second:
    the outputs, in the order in which they are computed.
    """
    registry, rng = producer.registry, np.random.default_rng(0)
    arrays = {name: rng.random((3, 3)).astype(np.float32) * 4 for name in "ab"}
    nodes = {
        "s": Node(registry.get("LogSoftmax")(axis=0), ("a",), ("s",)),
        "m": Node(registry.get("MatMul")(), ("a", "b"), ("m",)),
    }
    values = {name: Value(name, TensorType(DType.FLOAT32, (3, 3))) for name in "absm"}
    graph = Graph(values, [nodes[first], nodes[second]], ["a", "b"], [], [first, second])
    return producer.expose(
        TestCase(Numbered(0, 0), graph.view(), b"", arrays, {}, {}, "direct", 20)
    )


@pytest.mark.parametrize("order, operator", [("sm", "LogSoftmax"), ("ms", "MatMul")])
def test_a_reduction_keeps_the_operator_whose_result_is_wrong_first(bench, order, operator):
    finding, _ = reduced(bench, two_causes(bench[2], *order))
    assert finding.case.graph.operators == (operator,)


def test_a_mode_and_what_a_body_holds_stand_for_an_operator():
    body = {"body": {"steps": [{"op": {"name": "Softmax"}}]}}
    assert _is_of(NodeView("Loop", attributes=body), "Softmax")
    assert _is_of(NodeView("RoiAlignMax"), "RoiAlign")
    assert not _is_of(NodeView("Loop", attributes=body), "Soft")
    assert not _is_of(NodeView("ArgMax"), "Max")


# Two operators that fail together: the one at fault still fails with a plain one beside it.


PLAIN = {"readers": ("Equal", 1)}


class Pairs:
    """Two operators fail together if one of the wrong ones is there."""

    def __init__(self, *wrong):
        self.wrong, self.tried = wrong, []
        self.runner = "toy"

    def explain(self, case, outputs, told):
        raise AssertionError("no outputs, no hypotheses")

    def run(self, case, edits, question):
        made = case.graph
        for edit in edits:
            if edit.by == "redrawing":
                return Tried()
            if edit.by == "neighbourhoods":
                made = replace(made, nodes=made.nodes[1:])
            if edit.by in PLAIN:
                operator, place = PLAIN[edit.by]
                nodes = list(made.nodes)
                nodes[place] = replace(nodes[place], op=operator)
                made = replace(made, nodes=tuple(nodes))
        self.tried.append(made.operators)
        bad = [op for op in made.operators if op in self.wrong and len(made.nodes) == 2]
        return replace(fails(made, bad), digest="-".join(made.operators))


@pytest.mark.parametrize(
    "wrong, told",
    [
        (("Not",), "Not (float32) is wrong for whatever reads it"),
        (("Sign",), ""),
    ],
)
def test_the_one_at_fault_fails_with_a_plain_operator(wrong, told):
    slots = Pairs(*wrong)
    best = slots.run(fails(graph(("Not", "x", "h"), ("Sign", "h", "y")), ()).case, (), None)
    found = diagnose(slots, CandidateQuestion(("O0", "O1"), True), [best], best.failing[0][0], ())
    assert tuple(map(str, found.explanations)) == ((told,) if told else ())
    assert [told in key.text for key in found.keys] == ([True] if told else [])


class Redrawn(Pairs):
    """Of a result its digits are wrong; of other inputs, all of it."""

    def run(self, case, edits, question):
        element = Element(index=(), expected=0.1, actual=0.7 if edits else 0.1000001)
        wrong = (Mismatch("y", MismatchKind.VALUE, worst=element),)
        told = Verdict({Target("toy", pipeline=level): wrong for level in ("O0", "O1")})
        found = failures([outcome("O0"), outcome("O1")], told, case.graph)
        return Tried("digest", case=case, verdict=told, failing=((found[0], ""),))


def test_what_depends_on_the_inputs_is_no_part_of_a_cause():
    made, far = single("Sin"), {"expected": 0.1, "actual": 0.7}
    best = Redrawn().run(fails(made, ()).case, (), None)
    found = diagnose(Redrawn(), CandidateQuestion(("O0",), True), [best], best.failing[0][0], ())
    assert [key.text for key in found.keys] == [mismatch(made, levels=("O0", "O1"), worst=far)]


def test_a_fusion_needs_both():
    slots = Pairs("nothing but the two")
    made = graph(("Not", "x", "h"), ("Sign", "h", "y"))
    best = fails(made, ("Sign",))
    found = diagnose(slots, CandidateQuestion(("O0", "O1"), True), [best], best.failing[0][0], ())
    assert found.explanations == () and ("Not", "Equal") in slots.tried


def hangs(*levels):
    ran = [replace(failed(level), kind=OutcomeKind.TIMEOUT) for level in levels]
    (failure,) = failures(ran)
    return Tried("digest", outcomes=tuple(ran), failing=((failure, "hangs"),))


def test_what_hangs_everywhere_runs_at_one_level_and_in_a_hurry():
    whole, tried = CandidateQuestion(("O0", "O1"), False), hangs("O0", "O1")
    question = _shortened(whole, tried.failing[0][0], tried)
    assert question.levels == ("O0",) and question.hurried
    first, *others = _confirming(whole, question)
    assert not first.hurried and len(others) == CONFIRMATIONS - 1
    assert all(other == question for other in others)


def test_what_hangs_when_optimised_needs_the_level_that_does_not():
    whole, tried = CandidateQuestion(("O0", "O1"), False), hangs("O1")
    tried = replace(tried, outcomes=(outcome("O0"), *tried.outcomes))
    assert _shortened(whole, tried.failing[0][0], tried).levels == ("O0", "O1")
    assert _confirming(whole, whole) == [whole] * CONFIRMATIONS


def test_what_says_something_else_is_another_cause():
    made = graph(("Elu", "x", "y"))
    (failure,) = failures([failed("O0", "no Elu of float32")])
    assert failure.stage is Stage.IMPORT or failure.stage is Stage.COMPILE
    other = graph(("Selu", "x", "y"))
    assert Cause("r", other, messages=("no Selu of float32",)).says(failure, made)
    assert not Cause("r", other, messages=("axis of Selu",)).says(failure, made)
    assert Cause("r", other).says(failure, made)


# The evidence of a wrong result for a hypothesis, in bits: how unlikely is agreement by chance?


def differing(right, actual):
    right, actual = np.array(right), np.array(actual)
    none = np.zeros(right.shape, bool)
    exact = Envelope(DType.of(right.dtype), right, right, right, none)
    return differences({"y": exact}, {"y": actual})


def test_each_distinct_difference_is_shown_once():
    assert differing([1, 2, 3, 3], [1, 3, 4, 4]) == [("integer", "2", "3"), ("integer", "3", "4")]
    assert differing([True, True], [False, False]) == [
        ("bool y[0]", "True", "False"),
        ("bool y[1]", "True", "False"),
    ]
    assert differing([1, 2], [[1, 2]]) == [("form", "[2]", "[1, 2]")]


def test_one_number_that_many_hypotheses_give_is_no_evidence():
    assert not enough(differing([-2], [-1]), 6)  # one too large, and rounded, and divided by 2
    assert not enough(differing([3.5], [0.0]), 6)
    assert not enough(differing([-0.5], [0.5]), 6)  # one too large, and of the opposite sign
    assert not enough(differing([True], [False]), 6)


def test_several_distinct_numbers_are_evidence():
    assert enough(differing([0, 1, 2, 3], [1, 2, 3, 4]), 6)
    assert enough(differing([0.2], [0.7310585786]), 6)
    assert enough(differing([7], [1000]), 6)
    assert enough(differing([0.2, 0.7, 3.1, 5.9], [-0.2, -0.7, -3.1, -5.9]), 6)
    assert enough(differing([True] * 6, [False] * 6), 6)
    assert enough(differing([1, 2], [[1, 2]]), 6)


def test_the_same_number_again_adds_nothing():
    assert bits(differing([5, 5, 5], [6, 6, 6])) == bits(differing([5], [6]))


# Operators that need the same thing to be healed share a cause; others do not.


def case_of(bench, operator, operands, constants=0, **attributes) -> TestCase:
    """A model of one operator of so many operands, the last ones of which are constants."""
    producer, rng = bench[2], np.random.default_rng(1)
    names = [f"x{i}" for i in range(operands)]
    arrays = {n: (rng.random((2, 3)) * 8 - 6).astype(np.float32) for n in names}
    op = producer.registry.get(operator)(**attributes)
    type_ = TensorType(DType.FLOAT32, (2, 3))
    values = {n: Value(n, type_) for n in names}
    values["y"] = Value("y", *op.type_transfer(*[type_] * operands))
    inputs, weights = names[: operands - constants], names[operands - constants :]
    graph = Graph(values, [Node(op, tuple(names), ("y",))], inputs, weights, ["y"])
    given = [{n: arrays[n] for n in part} for part in (inputs, weights)]
    return producer.expose(TestCase(Numbered(0, 0), graph.view(), b"", *given, {}, "direct", 20))


def key_of(bench, case):
    """The keys of the reduced finding of a case, its refined signature, and the evidence."""
    finding, evidence = reduced(bench, case)
    found = cause_of(finding, bench[0])
    return found.keys, found, evidence


def test_an_attribute_that_only_the_lowering_sets_is_one_cause_of_many_operators(bench):
    wrong = [(name, {"axes": (), "keepdims": 0}) for name in ("ReduceMax", "ReduceSum")]
    found = [key_of(bench, case_of(bench, name, 1, **rest)) for name, rest in wrong]
    assert have_one_cause(*(keys for keys, _, _ in found))
    for (name, _), (_, _, evidence) in zip(wrong, found, strict=True):
        assert [str(h) for h in evidence.explanations] == [f"{name} ignores noop_with_empty_axes"]
        assert evidence.heals == ("noop_with_empty_axes",)


def test_constants_and_operands_are_causes_of_their_own(bench):
    cases = {
        "constant": [case_of(bench, "Sub", 2, 1), case_of(bench, "Div", 2, 1)],
        "operands": [case_of(bench, "Min", 3), case_of(bench, "Mean", 3)],
    }
    found = {name: [key_of(bench, case) for case in listed] for name, listed in cases.items()}
    for name, pair in found.items():
        assert have_one_cause(*(keys for keys, _, _ in pair)), name
        assert all(name in evidence.heals for _, _, evidence in pair)
    assert found["constant"][0][2].explanations == ()  # not that it has the opposite sign
    assert found["constant"][0][1].parts["constant"] and found["operands"][0][1].parts["many"]
    assert not have_one_cause(found["constant"][0][0], found["operands"][0][0])


def test_what_is_undefined_is_explained_by_nothing(bench):
    case, service = case_of(bench, "Reciprocal", 1), ReduceService(as_json(CONFIG))
    zero = replace(case, inputs={"x0": np.zeros((2, 3), np.float32)})
    jobs = [Explain(made, {"y": made.inputs["x0"]}, ()) for made in (case, zero)]
    found = [list(map(str, service.explain(job, None).explanations)) for job in jobs]
    assert found == [["Reciprocal returns input 0"], []]


def test_deaths_without_a_word_in_one_small_family_are_one(bench):
    dead = [key_of(bench, case_of(bench, name, 1))[0] for name in ("HardSwish", "Mish")]
    assert have_one_cause(*dead)
    assert any("SIGSEGV in compile at Gated" in key.text for key in dead[0])


@pytest.mark.parametrize(
    "heals, operator, text",
    [
        (["dilations"], "Conv", "Conv ignores dilations"),
        (["is_causal", "softcap"], "Attention", ""),
        ([], "Conv", ""),
        ([OPERANDS], "Max", "a family"),
    ],
)
def test_one_thing_that_heals_is_shared_by_the_operators_that_have_it(heals, operator, text):
    claimed = shared_key(heals, operator, Hypothesis.parse("a family"))
    assert str(claimed or "") == text


def test_of_several_things_that_heal_a_known_cause_chooses():
    both, known = ("strides", "dilations"), [("dilations",), ("constant", "strides"), ()]
    assert narrowest_cause(both, known) == ["dilations"]
    assert narrowest_cause(both, [*known, ("strides",)]) == both
    assert narrowest_cause(("strides",), known) == ("strides",)


def test_different_attributes_of_one_operator_are_different_causes():
    texts = [shared_key([name], "Attention", None) for name in ("is_causal", "softcap")]
    assert all(a != b for a, b in combinations(texts, 2))
    assert str(healed([CONSTANT], "Add")) == "Add is right where no operand is constant"
    assert str(healed(["mode", "axis"], "Pad")) == "Pad is right without mode or axis"


# Plain operators in place of what reads a value.


ROWS = np.array([1, 2, 65535], np.uint16)


@pytest.fixture
def pair():
    """Sign of BitwiseNot."""
    type_ = TensorType(DType.UINT16, (3,))
    flip, sign = (REGISTRY.get(name)() for name in ("BitwiseNot", "Sign"))
    nodes = [Node(flip, ("x",), ("h",)), Node(sign, ("h",), ("y",))]
    values = {name: Value(name, type_) for name in "xhy"}
    return Subject(Graph(values, nodes, ["x"], [], ["y"]), {"x": ROWS})


def test_a_value_is_compared_with_the_right_one(pair):
    made = read_by(pair, "h", "Equal", REGISTRY).checked()
    assert [node.op.name for node in made.graph.nodes] == ["BitwiseNot", "Equal"]
    assert made.values["h_read"].tolist() == [True, True, True]


def test_a_value_is_read_in_a_wider_dtype(pair):
    made = read_by(pair, "h", "Cast", REGISTRY).checked()
    assert made.values["h_read"].dtype == np.int64
    assert made.values["h_read"].tolist() == [65534, 65533, 0]


@pytest.mark.parametrize(
    "claim, operators, families",
    [
        ("{} ignores alpha", ("LeakyRelu", "Elu"), 2),
        ("{} ignores post_transform", ("ai.onnx.ml.TreeEnsemble", "ai.onnx.ml.LinearRegressor"), 2),
        ("{} ignores epsilon", ("LayerNormalization", "GroupNormalization"), 1),
        ("int64 is computed in float32", ("ReduceL1", "Max"), 2),
        ("int64 is computed in float32", ("ReduceL1", "ReduceL2"), 1),
        ("is right without constants", ("ReduceLogSum", "Clip"), 2),
        ("Clip returns 0", ("Clip", "Clip"), 1),
    ],
)
def test_operators_share_an_attribute_or_a_dtype_within_their_family_only(
    claim, operators, families
):
    """Swapped post_transforms of trees once were taken for the known ones of another operator."""

    class Worker:
        def families(self, operator, attribute=""):
            return small_families(operator, REGISTRY, attribute)

    one, other = (
        {*_in_family(Worker(), op, Hypothesis.parse(claim.format(op)))} for op in operators
    )
    assert one.isdisjoint(other) == (families > 1)
