"""Direct emission: names, constants, attributes, determinism."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys

import numpy as np
import onnx
import pytest

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.symbolic import Symbolic
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.emit import OPSETS, Emitter, emit_model
from nnfuzz.materialize.errors import OpsetError
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import OpRegistry

SCALAR = TensorType(DType.FLOAT32, ())


def emitter(*names):
    return Emitter(18, dict.fromkeys(names, SCALAR))


class Twice(OpSpec):
    """Two outputs, or what `how` says."""

    name = "Twice"

    def __init__(self, how):
        self.how = how

    def onnx(self, emit, x):
        return self.how(emit, x)


@pytest.mark.parametrize(
    ("how", "types"),
    [
        (lambda e, x: (x, x), ["Identity", "Identity"]),
        (lambda e, x: (e("Neg", x),) * 2, ["Neg", "Identity", "Identity"]),
        (lambda e, x: (e("Neg", x), e.const(1, DType.FLOAT32)), ["Neg", "Identity"]),
        (lambda e, x: e("Split", x, outputs=2), ["Split"]),
    ],
)
def test_outputs_get_their_names_whatever_the_lowering_returns(how, types):
    emit = emitter("x", "a", "b")
    emit.lower(Node(Twice(how), ("x",), ("a", "b")))
    assert [n.op_type for n in emit.nodes] == types
    assert {"a", "b"} <= {o for n in emit.nodes for o in n.output}


def test_renaming_reaches_readers_inside_of_a_lowering():
    def how(emit, x):
        y = emit("Neg", x)
        return y, emit("Abs", y)

    emit = emitter("x", "a", "b")
    emit.lower(Node(Twice(how), ("x",), ("a", "b")))
    assert [(list(n.input), list(n.output)) for n in emit.nodes] == [
        (["x"], ["a"]),
        (["a"], ["b"]),
    ]


def test_emitted_names_avoid_those_of_the_graph():
    emit = emitter("Neg_1", "c_2")
    assert emit("Neg", "Neg_1") == "Neg_2"
    assert emit.const(1, DType.INT64) == "c_3"


def test_absent_inputs_and_attributes_leave_no_trace():
    emit = emitter("x")
    emit("Clip", "x", "", "", axis=None)
    emit("Clip", "x", "", "m")
    assert [list(n.input) for n in emit.nodes] == [["x"], ["x", "", "m"]]
    assert not emit.nodes[0].attribute


def relu_graph(dtype=DType.INT8):
    type_ = TensorType(dtype, (2,))
    values = {n: Value(n, type_) for n in ("x", "w", "s", "y")}
    registry = OpRegistry.load()
    nodes = [
        Node(registry.get("Add")(), ("x", "w"), ("s",)),
        Node(registry.get("Relu")(), ("s",), ("y",)),
    ]
    return Graph(values, nodes, ["x"], ["w"], ["y"])


@pytest.mark.parametrize("opset", range(12, OPSETS[1] + 1))  # 11 has no Max of int8
def test_every_opset_passes_the_full_check(opset):
    model = emit_model(relu_graph(), {"w": np.ones(2, np.int8)}, opset)
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == opset


@pytest.mark.parametrize("array", [np.ones(3, np.int8), np.ones(2, np.int16)])
def test_weights_must_have_their_type(array):
    with pytest.raises(ValueError, match="weight w is"):
        emit_model(relu_graph(), {"w": array})


def test_operators_name_the_opset_they_need():
    registry = OpRegistry.load()
    type_ = TensorType(DType.FLOAT32, (2,))
    values = {n: Value(n, type_) for n in "xy"}

    class Late(registry.get("Neg")):
        name = "Late"
        since = 20

    graph = Graph(values, [Node(Late(), ("x",), ("y",))], ["x"], [], ["y"])
    with pytest.raises(OpsetError, match="Late reaches the opsets 20"):
        emit_model(graph, {}, 18)


def digest() -> str:
    specs = OpRegistry.load().specs()
    config = admitted_by_schema(GenerateConfig(nodes=8), specs)
    catalog = Catalog(specs, config)
    state = hashlib.sha256()
    for seed in range(8):
        graph = Symbolic(catalog, config).next(random.Random(seed)).graph
        weights = {
            n: np.ones(graph.type(n).shape, graph.type(n).dtype.numpy) for n in graph.weights
        }
        state.update(emit_model(graph, weights, config.opset).SerializeToString())
    return state.hexdigest()


def test_models_are_equal_byte_for_byte_in_another_process():
    code = f"import sys; sys.path.insert(0, {str(__file__.rsplit('/', 1)[0])!r}); "
    code += "import test_emit; print(test_emit.digest())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == digest()
