"""The adapters tell which passes changed a model, and compile without some of them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from nnfuzz.backends.removed import removed
from onnx import TensorProto, helper

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner


@pytest.fixture(scope="module")
def model() -> bytes:
    """Pad, then a pool without padding of its own, then Relu: for Pad_Fusion and for TIR fusion.

    ONNX Runtime 1.32 fuses a Pad into an AveragePool as before, and no longer into a MaxPool.
    """
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, size, size])
        for name, size in (("x", 4), ("y", 5))
    )
    pads = helper.make_tensor("p", TensorProto.INT64, [8], [0, 0, 1, 1, 0, 0, 1, 1])
    nodes = [
        helper.make_node("Pad", ["x", "p"], ["a"]),
        helper.make_node("AveragePool", ["a"], ["b"], kernel_shape=[2, 2]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [pads])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(made)
    return made.SerializeToString()


@pytest.mark.parametrize(
    ("backend", "level", "wanted"),
    [("onnxruntime", "O3", "Pad_Fusion"), ("tvm", "O3", "FuseTIR")],
)
def test_passes_are_told_and_switched_off(model, backend, level, wanted):
    registry = BackendRegistry.discover()
    if registry.get(backend).missing():
        pytest.skip(f"{backend} is not installed")
    inputs = {"x": np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)}
    with BackendRunner(registry.spec(backend, {}), registry) as runner:
        passes = runner.fired_passes(model, level)
        assert wanted in passes
        assert len(set(passes)) == len(passes)
        ruled = [i for i, name in enumerate(passes) if "RuleBased" in name]
        assert all(i < passes.index(wanted) for i in ruled[:1]), "rules follow what runs them"
        usual = runner.run(model, inputs, [level])[0]
        for name in [wanted, passes[-1]]:
            other = runner.run(model, inputs, [level], [name])[0]
            assert other.ok, f"without {name}: {other.message}"
            np.testing.assert_array_equal(other.outputs["y"], usual.outputs["y"])


def test_what_another_pass_makes_room_for_counts_as_later():
    # The pads are a constant only when ConstantFolding has run; then the rules run once more.
    registry = BackendRegistry.discover()
    if registry.get("onnxruntime").missing():
        pytest.skip("onnxruntime is not installed")
    model = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 18]>
        g (float[1, 1, 4] x) => (float[1, 1, 3] y) <int32[6] p = {0, 0, 0, 0, 0, 1}> {
            q = Cast <to = 7> (p)
            a = Pad (x, q)
            y = AveragePool <kernel_shape = [3]> (a)
        }
        """
    )
    with BackendRunner(registry.spec("onnxruntime", {}), registry) as runner:
        passes = runner.fired_passes(model.SerializeToString(), "O1")
    assert passes.index("ConstantFolding") < passes.index("Pad_Fusion")


@pytest.mark.parametrize(
    ("backend", "wanted"),
    [("onnxruntime", "Level1_RuleBasedTransformer(Pad)"), ("tvm", "FuseOps(avg_pool2d_relu)")],
)
def test_what_passes_take_away_is_told_with_the_result(model, backend, wanted):
    registry = BackendRegistry.discover()
    if registry.get(backend).missing():
        pytest.skip(f"{backend} is not installed")
    inputs = {"x": np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)}
    with BackendRunner(registry.spec(backend, {}), registry) as runner:
        (plain,), (watched,) = (runner.run(model, inputs, ["O3"], watch=w) for w in (False, True))
        assert plain.passes is None and wanted in watched.passes, watched.passes
        np.testing.assert_array_equal(plain.outputs["y"], watched.outputs["y"])


def test_groups_of_operators_that_are_gone():
    def chain(*ops):
        names = [f"v{i}" for i in range(len(ops) + 1)]
        nodes = [helper.make_node(op, [a], [b]) for op, a, b in zip(ops, names, names[1:]) if op]
        return helper.make_model(helper.make_graph(nodes, "g", [], [])).SerializeToString()

    before = chain("Abs", "Neg", "Relu", "Exp", "Log")
    assert removed(before, before) == [""]
    assert removed(before, chain("Abs", "", "", "Exp", "Elu")) == ["Neg+Relu", "Log"]
    assert removed(before, chain("Sin")) == ["Abs+Neg", "Neg+Relu", "Exp+Relu", "Exp+Log"]
