from __future__ import annotations

import onnx
import pytest

from nnfuzz.backend.target import Target
from nnfuzz.ir.sizes import by_copy, copies, from_copies, name_and_copy
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.materialize.opsets import CALLED_DIRECT
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.identity import Probe
from nnfuzz.testcase.producer import Producer

NAMES = ("Add", "Mul", "Relu", "MatMul", "Softmax", "ReduceSum", "Transpose", "Concat", "Abs")
CONFIG = CaseConfig(nodes=5, operators=NAMES, dynamic=1.0, dtypes={"float32": 1.0})


@pytest.fixture(scope="module")
def producer():
    return Producer(1, CONFIG)


@pytest.fixture(scope="module")
def cases(producer):
    made = [producer.produce(index) for index in range(25)]
    return [case for case in made if isinstance(case, TestCase)]


@pytest.fixture(scope="module")
def dynamic(cases):
    found = [case for case in cases if case.exporter == CALLED_DIRECT]
    assert len(found) > 5
    return found


def test_the_model_has_the_first_copys_interface(producer, dynamic):
    for case in dynamic:
        model = onnx.load_from_string(case.model)
        assert len(copies(producer.load(case))) == 3
        assert {v.name for v in model.graph.input} == {
            name_and_copy(name)[0] for name in case.inputs
        }
        assert any(d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim)


def test_the_model_computes_what_is_expected_at_every_size(producer, dynamic):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for case in dynamic:
        if any(dtype != "float32" for dtype in case.graph.dtypes.values()):
            continue
        session = onnxruntime.InferenceSession(case.model, options)
        names = [output.name for output in session.get_outputs()]
        runs = [dict(zip(names, session.run(names, part))) for part in by_copy(case.inputs)]
        verdict = producer.judge(case, {Target("onnxruntime"): from_copies(runs)})
        assert not any(verdict.mismatches.values())


def test_exposed_models_stay_dynamic(producer, dynamic):
    exposed = producer.expose(dynamic[0])
    outputs = [output.name for output in onnx.load_from_string(exposed.model).graph.output]
    assert {name_and_copy(name)[0] for name in exposed.expected} == set(outputs)


def test_probes_and_campaigns_without_the_option_are_static(producer):
    key = producer.signatures()["torchscript"][0]
    probe = producer.made(Probe(SupportKey.parse(f"torchscript:{key}"), 0))
    assert probe.exporter == CONFIG.exporter
    static = Producer(1, CaseConfig(nodes=5, operators=NAMES)).produce(0)
    assert static.exporter == "torchscript"
