"""Models that are compiled once and called three times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from nnfuzz.backend.contract import InputChanged
from nnfuzz.backend.numeric import close
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.writing import as_json
from nnfuzz.compare.flip import Coordinate
from nnfuzz.experiment.compilers import examine
from nnfuzz.ir.sizes import by_copy, copies
from nnfuzz.materialize.opsets import CALLED_DIRECT
from nnfuzz.reduction.passes import applied, proposed
from nnfuzz.reduction.subject import Inapplicable, Subject, at_each_size
from nnfuzz.sandbox.job import Report
from nnfuzz.testcase.bench import LocalProducer
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.jobs import ComputeReference, ReferenceService
from nnfuzz.testcase.producer import Producer
from tests.planted.stateful import PROGRAMS, Stateful, measure

STATEFUL = Path(__file__).parents[1] / "planted" / "stateful.py"
NAMES = ("Add", "Mul", "Relu", "MatMul", "Softmax", "ReduceSum", "Transpose", "Concat", "Abs")
CONFIG = CaseConfig(
    nodes=5, exporter="direct", opset=20, operators=NAMES, calls=1.0, dtypes={"float32": 1.0}
)


@pytest.fixture(scope="module")
def producer():
    return Producer(1, CONFIG)


@pytest.fixture(scope="module")
def cases(producer):
    made = [producer.produce(index) for index in range(12)]
    found = [c for c in made if isinstance(c, TestCase) and "calls" in c.variations]
    assert len(found) > 8
    return found


def test_the_last_call_has_the_inputs_of_the_first_and_the_one_between_others(cases):
    for case in cases:
        first, other, last = by_copy(case.inputs)
        assert all(np.array_equal(first[name], last[name]) for name in first)
        assert any(not np.array_equal(first[name], other[name]) for name in first)
        before, _, after = by_copy(case.expected)
        assert all(np.array_equal(before[name], after[name], equal_nan=True) for name in before)


def test_the_model_and_the_graph_of_a_call_have_the_names_of_the_first(cases):
    for case in cases:
        model = onnx.load_model_from_string(case.model)
        declared = {value.name for value in model.graph.input}
        for number in range(3):
            alone = case.call(number)
            assert {*alone.inputs} == declared == {*alone.graph.inputs}
            assert len(alone.graph.nodes) * 3 == len(case.graph.nodes)
            assert alone.graph.checked() and alone.checked()


@pytest.mark.parametrize("exporter, opset", [("torchscript", 20), ("dynamo", 18)])
def test_models_of_pytorchs_exporters_are_called_too(exporter, opset):
    own = Producer(1, replace(CONFIG, exporter=exporter, opset=opset, calls=1.0))
    case = next(c for c in map(own.produce, range(9)) if isinstance(c, TestCase) and c.inputs)
    assert case.exporter == f"{exporter}-called" and len(case.fed) == 3
    direct = own.lower(case)
    assert direct.exporter == CALLED_DIRECT
    for made in (case, direct):
        (node, *_) = {value.name for value in onnx.load_from_string(made.model).graph.input}
        assert node in made.fed[1]
        outcome = ReferenceService().reference(ComputeReference(made), Report())
        assert all(close(made.expected[name], outcome.outputs[name], 99) for name in made.expected)


def test_onnx_reference_computes_each_call(cases):
    for case in cases[:3]:
        outcome = ReferenceService().reference(ComputeReference(case), Report())
        assert outcome.outputs.keys() == case.expected.keys()
        assert all(close(case.expected[name], outcome.outputs[name], 99) for name in case.expected)


def test_sizes_go_back_to_the_first_one():
    producer = Producer(1, replace(CONFIG, dynamic=1.0))
    made = (producer.produce(index) for index in range(20))
    both = {"dynamic", "calls"}
    case = next(c for c in made if isinstance(c, TestCase) and both <= {*c.variations})
    shapes = [{n: a.shape for n, a in part.items()} for part in by_copy(case.inputs)]
    assert len(shapes) == 4 and shapes[0] == shapes[3] != shapes[1]


def test_reduction_leaves_calls_out(producer, cases):
    case = cases[0]
    whole = Subject(producer.load(case), {**case.inputs, **case.weights}, CALLED_DIRECT, opset=20)
    kept = {}
    for edit in proposed(whole, "direct"):
        try:
            kept[str(edit.value)] = applied(whole, [edit])
        except Inapplicable:
            continue
    assert {len(at_each_size(kept[f"[{k}]"])) for k in range(3)} == {1}
    assert kept["[1]"].exporter == "direct" and kept["[0, 1]"].exporter == CALLED_DIRECT
    (second,) = at_each_size(kept["[1]"])
    given = by_copy(case.inputs)[1]
    assert all(np.array_equal(second.params[name], given[name]) for name in given)
    assert len(copies(kept["[0, 1]"].graph)) == 2


def test_a_program_may_not_write_to_its_inputs(cases):
    compiler, case = Stateful(keeps="input_overwritten"), cases[0].call(0)
    program = compiler.compile(compiler.import_model(case.model), "O1")
    with pytest.raises(InputChanged, match="has changed its input"):
        program({name: array + 1 for name, array in case.inputs.items()})


def test_what_is_right_if_it_is_called_once_is_told_so(cases):
    registry = BackendRegistry.discover([STATEFUL])
    spec = registry.parse("stateful,keeps=one_call_behind")
    bench = LocalProducer.of(as_json(CONFIG))
    with BackendRunner(spec, registry) as runner:
        result = examine(cases[0], runner, bench, ["O1"])
    assert {o.kind for o in result.outcomes} == {OutcomeKind.MISMATCH}
    (failure,) = result.failures
    assert failure.signature.title.endswith(", only at call 2")
    assert failure.signature.parts["calls"] == "several"
    assert result.blame(failure).coordinate is Coordinate.CALLS


def test_what_must_not_be_kept_is_found_and_what_may_be_is_not():
    found = measure(20, seed=2, most=200)
    wrong = {name for name, made in PROGRAMS.items() if not made.legal}
    assert len(wrong) == 14 and len(PROGRAMS) == 22
    assert found == wrong
