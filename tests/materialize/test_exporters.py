"""Exporters make valid models, and their shortcuts change no byte."""

from __future__ import annotations

import random

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engine import Symbolic
from nnfuzz.inputs.search import NotFound, search
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import dynamo, torchscript
from nnfuzz.materialize.errors import ExportError, GraphFault, OpsetError
from nnfuzz.materialize.exporters import exporters, opset_range
from nnfuzz.materialize.module import GraphModule, tensors
from nnfuzz.materialize.scoped import Patch, patched, patches
from tests.inputs.graphs import REGISTRY

EXPORTERS = exporters()
X = np.array([[1.5, -2.0, 3.0]], np.float32)


def op(name, **attributes):
    return REGISTRY.get(name)(**attributes)


def graph_of(nodes, inputs, weights, outputs, dtypes=()):
    """A graph of float32[1, 3] values, except for those that `dtypes` names."""
    names = [*inputs, *weights, *(o for n in nodes for o in n.outputs)]
    values = {n: Value(n, TensorType(dict(dtypes).get(n, DType.FLOAT32), X.shape)) for n in names}
    graph = Graph(values, nodes, list(inputs), list(weights), list(outputs))
    graph.verify()
    return graph


def run(model: bytes, inputs):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def random_cases(exporter, opset, count, seed):
    specs = REGISTRY.specs()
    config = admitted_by_schema(GenerateConfig(nodes=6, exporter=exporter, opset=opset), specs)
    catalog = Catalog(specs, config)
    for i in range(count):
        graph = Symbolic(catalog, config).next(random.Random(f"{seed}/{i}")).graph
        found = search(graph, random.Random(i))
        if not isinstance(found, NotFound):
            yield graph, found


@pytest.mark.parametrize(
    ("exporter", "opset", "count"),
    [("direct", 13, 12), ("direct", 26, 12), ("torchscript", 13, 6), ("torchscript", 20, 6),
     ("dynamo", 18, 1)],
)  # fmt: skip
def test_random_graphs_become_valid_models_with_the_graphs_names(exporter, opset, count):
    for graph, found in random_cases(exporter, opset, count, 5):
        data = EXPORTERS[exporter].export(graph, found.weights, found.inputs, opset)
        model = onnx.load_from_string(data)
        onnx.checker.check_model(model, full_check=True)
        assert [v.name for v in model.graph.input] == graph.inputs
        assert [v.name for v in model.graph.output] == graph.outputs
        assert model.ir_version <= 13
        for item in (*model.graph.input, *model.graph.output):
            type_ = graph.type(item.name)
            assert item.type.tensor_type.elem_type == type_.dtype.onnx
            dims = item.type.tensor_type.shape.dim
            assert len(dims) == type_.rank
            for dim, size in zip(dims, type_.shape):
                # PyTorch's exporters name a dimension where they have lost its size.
                assert dim.dim_value == size or (exporter != "direct" and dim.dim_param)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_chain_computes_what_pytorch_computes(exporter):
    nodes = [
        Node(op("Mul"), ("x", "w"), ("a",)),
        Node(op("Sub"), ("a", "x"), ("b",)),
        Node(op("Relu"), ("b",), ("c",)),
    ]
    graph = graph_of(nodes, ["x"], ["w"], ["c", "a"])
    weights = {"w": np.array([[2.0, 3.0, 0.5]], np.float32)}
    data = EXPORTERS[exporter].export(graph, weights, {"x": X}, 18)
    outputs = run(data, {"x": X})
    assert list(outputs) == ["c", "a"]
    np.testing.assert_array_equal(outputs["a"], X * weights["w"])
    np.testing.assert_array_equal(outputs["c"], np.maximum(X * weights["w"] - X, 0))
    assert [t.name for t in onnx.load_from_string(data).graph.initializer] == ["w"]


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_outputs_that_alias_keep_their_names(exporter):
    """Casts to the same type vanish in TorchScript: outputs become inputs, weights, each other."""
    cast = op("Cast", to=DType.FLOAT32)
    nodes = [
        Node(cast, ("x",), ("same",)),
        Node(cast, ("x",), ("again",)),
        Node(cast, ("w",), ("weight",)),
        Node(op("Neg"), ("x",), ("n",)),
        Node(op("Neg"), ("x",), ("m",)),
    ]
    graph = graph_of(nodes, ["x"], ["w"], ["same", "again", "weight", "n", "m"])
    data = EXPORTERS[exporter].export(graph, {"w": 2 * X}, {"x": X}, 18)
    outputs = run(data, {"x": X})
    assert list(outputs) == graph.outputs
    expected = dict(same=X, again=X, weight=2 * X, n=-X, m=-X)
    for name, value in expected.items():
        np.testing.assert_array_equal(outputs[name], value)
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_an_input_may_be_an_output_and_an_output_may_come_twice(exporter):
    graph = graph_of([Node(op("Neg"), ("x",), ("n",))], ["x"], [], ["n", "x", "n"])
    outputs = run(EXPORTERS[exporter].export(graph, {}, {"x": X}, 18), {"x": X})
    assert list(outputs) == ["n", "x"]
    np.testing.assert_array_equal(outputs["x"], X)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_opsets_out_of_range_are_refused(exporter):
    graph = graph_of([Node(op("Neg"), ("x",), ("n",))], ["x"], [], ["n"])
    lo, hi = opset_range(exporter)
    assert EXPORTERS[exporter].opsets == (lo, hi)
    for opset in (lo - 1, hi + 1):
        with pytest.raises(OpsetError, match=f"{lo} to {hi}, not {opset}"):
            EXPORTERS[exporter].export(graph, {}, {"x": X}, opset)


def test_unknown_exporter_names_the_known_ones():
    with pytest.raises(KeyError, match="torchscript, dynamo, direct"):
        opset_range("onnxscript")


def test_a_missing_symbolic_function_is_the_exporters_fault(capfd):
    graph = graph_of([Node(op("Sinh"), ("x",), ("y",))], ["x"], [], ["y"])
    with pytest.raises(ExportError, match=r"torchscript, opset 20: Unsupported.*sinh") as caught:
        EXPORTERS["torchscript"].export(graph, {}, {"x": X}, 20)
    assert caught.value.exporter == "torchscript"
    assert type(caught.value.__cause__).__name__ == "UnsupportedOperatorError"
    assert capfd.readouterr() == ("", "")


class Broken(REGISTRY.get("Neg")):
    name = "Broken"

    def torch(self, x):
        raise RuntimeError("kaput")

    def onnx(self, emit, x):
        raise RuntimeError("kaput")


class Widening(REGISTRY.get("Neg")):
    name = "Widening"

    def torch(self, x):
        return x.double()


@pytest.mark.parametrize(("exporter", "step"), [("torchscript", "torch"), ("direct", "onnx")])
def test_a_spec_that_raises_is_no_outcome_of_an_exporter(exporter, step):
    graph = graph_of([Node(Broken(), ("x",), ("y",))], ["x"], [], ["y"])
    with pytest.raises(GraphFault, match=f"^Broken.{step}: .*kaput") as caught:
        EXPORTERS[exporter].export(graph, {}, {"x": X}, 18)
    assert (caught.value.operator, caught.value.step) == ("Broken", step)


def test_a_spec_that_returns_another_type_is_named_when_the_exporter_chokes_on_it():
    nodes = [Node(Widening(), ("x",), ("y",)), Node(op("Sinh"), ("y",), ("z",))]
    graph = graph_of(nodes, ["x"], [], ["z"])
    with pytest.raises(GraphFault, match=r"^Widening.torch: .*float64"):
        EXPORTERS["torchscript"].export(graph, {}, {"x": X}, 18)


# -- shortcuts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_an_input_of_which_only_the_shape_matters_stays_an_input(exporter):
    filled = op("ConstantOfShape", dtype=DType.FLOAT32, number=7, source="computed")
    nodes = [Node(filled, ("y",), ("n",)), Node(op("Neg"), ("x",), ("m",))]
    graph = graph_of(nodes, ["y", "x"], [], ["n", "m"])
    outputs = run(EXPORTERS[exporter].export(graph, {}, {"x": X, "y": X}, 18), {"x": X, "y": X})
    np.testing.assert_array_equal(outputs["n"], np.full_like(X, 7))
    np.testing.assert_array_equal(outputs["m"], -X)


def test_outputs_are_declared_with_the_shapes_that_they_have():
    # Two dimensions are squeezed behind what the exporter does not know the shape of: two Ifs.
    values = {"x": (), "m": (1, 1), "y": ()}
    graph = Graph(
        {n: Value(n, TensorType(DType.FLOAT32, shape)) for n, shape in values.items()},
        [Node(op("Flatten", axis=0), ["x"], ["m"]), Node(op("Squeeze", axes=(0, 1)), ["m"], ["y"])],
        [], ["x"], ["y"],
    )  # fmt: skip
    graph.verify()
    x = np.array(2.0, np.float32)
    data = EXPORTERS["torchscript"].export(graph, {"x": x}, {}, 20)
    (declared,) = onnx.load_from_string(data).graph.output
    assert not declared.type.tensor_type.shape.dim
    session = ort.InferenceSession(data)
    assert session.run(["y"], {})[0].shape == ()


# Shortcuts of the dynamo exporter.


def traced(graph, found):
    module = GraphModule(graph, found.weights).eval()
    inputs = tensors({n: found.inputs[n] for n in graph.inputs})
    return module, tuple(inputs.values()), module.input_names, module.output_names


@pytest.mark.slow
def test_dynamo_shortcuts_change_no_byte():
    export = dynamo.DynamoExport()
    assert len(export.shortcuts) == 3
    for graph, found in random_cases("dynamo", 18, 2, 3):
        call = (*traced(graph, found), 18)
        with patched(export.shortcuts):
            quick = dynamo.stock(*call)
        assert quick == dynamo.stock(*call)


# Shortcuts of the TorchScript exporter.


@pytest.mark.parametrize(("opset", "seed"), [(13, 1), (20, 2)])
def test_torchscript_shortcuts_change_no_byte(opset, seed):
    export = torchscript.TorchScriptExport()
    assert len(export.shortcuts) == 6
    for graph, found in random_cases("torchscript", opset, 6, seed):
        call = (*traced(graph, found), opset)
        with patched(export.shortcuts):  # not through `export`, which falls back silently
            quick = torchscript.stock(*call)
        assert quick == torchscript.stock(*call)


# Patches of libraries that last for one export.


@pytest.mark.parametrize("export", [torchscript.TorchScriptExport(), dynamo.DynamoExport()])
def test_shortcuts_that_raise_fall_back_to_the_public_call(export):
    def fails(*args, **kwargs):
        raise TypeError("changed")

    graph = graph_of([Node(op("Neg"), ("x",), ("n",))], ["x"], [], ["n"])
    module = GraphModule(graph, {})
    call = (module.eval(), (torch.tensor(X),), ["x"], ["n"], 18)
    expected = export(*call)
    broken = type(export)()
    first = export.shortcuts[0]
    broken.shortcuts = (Patch(first.owner, first.name, fails),)
    assert broken(*call) == expected


def test_missing_private_names_leave_no_patch():
    def gone():
        return [Patch(np, "no_such_name", None)]

    def unimportable():
        raise ImportError("moved")

    assert patches(gone) == ()
    assert patches(unimportable) == ()


def test_patches_are_undone_after_an_exception():
    class Owner:
        value = 1

    with pytest.raises(KeyError), patched([Patch(Owner, "value", 2)]):
        assert Owner.value == 2
        raise KeyError
    assert Owner.value == 1
