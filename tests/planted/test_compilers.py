"""The planted compilers: right but for their faults, and they know which of them a model meets."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from tests.planted import frugal, fusing, generated, guessing, immature, layered
from tests.planted.nodewise import Interpreter

ROWS = np.array([[1.0, -2.0, 3.0], [0.5, 2.5, -1.0]], np.float32)
ONE = {"x": ROWS}


def model(*nodes, outputs=("y",), dtype=TensorProto.FLOAT, shape=(2, 3)):
    """(operator, inputs, output, attributes) from x of a dtype to outputs of the same."""
    made = [helper.make_node(op, list(ins), [out], **attrs) for op, ins, out, attrs in nodes]
    ins = [helper.make_tensor_value_info("x", dtype, shape)]
    outs = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(made, "g", ins, outs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def causes(*nodes, inputs=ONE, **rest):
    return immature.causes_of(model(*nodes, **rest).SerializeToString(), inputs)


@pytest.mark.parametrize("exporter", ["direct", "torchscript"])
def test_without_faults_the_interpreter_is_right(exporter):
    producer = Producer(6, CaseConfig(exporter=exporter))
    cases = [c for c in map(producer.produce, range(12)) if isinstance(c, TestCase)]
    agreed = 0
    for case in cases:
        try:
            outputs = Interpreter(onnx.load_model_from_string(case.model))(case.inputs)
        except NotImplementedError:  # by ONNX Runtime and the reference implementation, too
            continue
        assert outputs.keys() == case.expected.keys()
        agreed += all(
            np.allclose(outputs[n].astype(float), x.astype(float), 1e-2, 1e-3, equal_nan=True)
            for n, x in case.expected.items()
        )
    assert agreed > len(cases) * 0.7  # roughly: judging is the envelope's business


def test_the_cause_of_a_failure_is_known():
    sin, relu = ("Sin", "x", "y", {}), ("Relu", "x", "y", {})
    assert causes(relu) == set()
    assert causes(sin) == {"sine_negated"}
    assert causes(("Celu", "x", "y", {})) == {"activation_missing"}
    # What does not reach an output is no cause, and what comes first hides the rest.
    assert causes(relu, ("Sin", "x", "s", {})) == set()
    assert causes(("Sin", "x", "s", {}), ("Hardmax", "s", "y", {})) == {"hardmax_hangs"}
    both = causes(("Sin", "x", "s", {}), ("Round", "x", "y", {}), outputs=("s", "y"))
    assert both == {"sine_negated", "half_rounded_up"}
    wide = {"x": ROWS.astype(np.float64) / 3}
    exp = ("Exp", "x", "y", {})
    assert causes(exp, inputs=wide, dtype=TensorProto.DOUBLE) == {"double_in_float"}


def test_compilers_know_wrong_types_misleading_words_and_habits():
    def met(plugin, *nodes, inputs=ONE, **rest):
        return plugin.causes_of(model(*nodes, **rest).SerializeToString(), inputs)

    floored = ("Floor", "x", "h", {})
    for reader in ("Relu", "Add"):
        operands = ["h", "h"] if reader == "Add" else ["h"]
        assert met(guessing, floored, (reader, operands, "y", {})) == {"dtype_of_floor"}
    assert met(guessing, ("Relu", "x", "y", {})) == set()
    assert met(layered, ("Ceil", "x", "y", {})) == {"rounded"}
    assert met(generated, ("Softmax", "x", "y", {"axis": -1})) == {"negative_axis"}
    clipped = [("Clip", "x", "h", {}), ("Relu", "h", "y", {})]
    assert met(fusing, *clipped) == {"relu_after_clip"}
    product = [("Mul", ["x", "x"], "h", {}), ("Tanh", "h", "t", {})]
    assert met(fusing, *product, ("Neg", "h", "y", {})) == {"computed_in_place"}
    refused = {"x": ROWS.astype(np.float64)}
    assert met(generated, ("Sin", "x", "y", {}), inputs=refused, dtype=TensorProto.DOUBLE) == set()
    strange = {"x": np.where(ROWS > 2, np.float32(np.nan), ROWS)}
    assert met(frugal, ("Relu", "x", "y", {})) == set()
    assert met(frugal, ("Relu", "x", "y", {}), inputs=strange) == {"nan_ignored"}
    assert met(frugal, ("Sign", "x", "y", {})) == {"sign_of_one"}
