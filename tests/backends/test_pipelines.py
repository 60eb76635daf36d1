"""Pipelines and passes of the compilers."""

from __future__ import annotations

import random
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from nnfuzz.backends.onnxruntime_options import configure
from onnx import TensorProto, helper

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.target import Pipeline

MODEL = """
    <ir_version: 8, opset_import: ["" : 18]>
    g (float[1, 2, 6, 6] x, float[1, 3, 6, 6] y) => (float[1, 3, 6, 6] z, float[36] s)
    <float[3, 2, 3, 3] w = {WEIGHTS}> {
        a = Conv <pads = [1, 1, 1, 1]> (x, w)
        b = Add (a, y)
        c = Relu (b)
        d = Relu (b)
        e = Mul (c, d)
        z = MatMul (e, y)
        r = ReduceSum <keepdims = 0> (z, axes)
        s = Reshape (r, shape)
    }
"""


@pytest.fixture(scope="module")
def model() -> bytes:
    weights = ", ".join(f"{i % 5 - 2}.0" for i in range(54))
    proto = onnx.parser.parse_model(
        MODEL.replace("{WEIGHTS}", "{" + weights + "}").replace(
            "> {", ", int64[1] axes = {1}, int64[1] shape = {36}> {", 1
        )
    )
    onnx.checker.check_model(proto, full_check=True)
    return proto.SerializeToString()


INPUTS = {
    name: (np.arange(36 * channels) % 4).astype(np.float32).reshape(1, channels, 6, 6)
    for name, channels in (("x", 2), ("y", 3))
}
PREFIX = {"tvm": "LegalizeOps+"}
"""What has to stand before a step for it to find something to do."""


@pytest.fixture(params=["onnxruntime", pytest.param("tvm", marks=pytest.mark.slow)])
def backend(request):
    registry = BackendRegistry.discover()
    if registry.get(request.param).missing():
        pytest.skip(f"{request.param} is not installed")
    return registry, registry.spec(request.param, {})


def test_every_step_alone_leaves_the_result_as_it_is(backend, model):
    registry, spec = backend
    cls, prefix = registry.get(spec.name), PREFIX.get(spec.name, "")
    top = cls.levels[-1]
    made = [f"{top}+{start}{step}" for step in cls.steps for start in dict.fromkeys(("", prefix))]
    with BackendRunner(spec, registry) as runner:
        first, *others = runner.run(model, INPUTS, [cls.levels[0], *made])
    for outcome in others:
        assert outcome.ok, f"{outcome.level}: {outcome.message}"
        for name, array in first.outputs.items():
            np.testing.assert_array_equal(outcome.outputs[name], array, err_msg=outcome.level)


def test_what_is_drawn_is_legal_and_depends_on_the_seed_alone(backend):
    registry, spec = backend
    adapter = registry.get(spec.name)()
    drawn = [adapter.draw_pipeline(random.Random(seed)) for seed in range(500)]
    assert drawn == [adapter.draw_pipeline(random.Random(seed)) for seed in range(500)]
    assert len(set(drawn)) > 400
    for pipeline in drawn:
        adapter.check_level(str(pipeline))
        assert pipeline.steps and len(str(pipeline)) < 240  # what a worker's status page holds
        names = [step.partition("=")[0] for step in pipeline.options]
        assert len(set(names)) == len(names), "an option is said twice"
    assert {step for pipeline in drawn for step in pipeline.steps} == {*adapter.steps}


def test_a_pass_of_a_drawn_pipeline_is_told_and_switched_off(model):
    registry = BackendRegistry.discover()
    if registry.get("tvm").missing():
        pytest.skip("tvm is not installed")
    level = "O0+EliminateCommonSubexpr+LiftTransformParams"
    with BackendRunner(registry.spec("tvm", {}), registry) as runner:
        passes = runner.fired_passes(model, level)
        assert {"EliminateCommonSubexpr", "LiftTransformParams"} <= {*passes}
        without = runner.run(model, INPUTS, [level], ["LiftTransformParams"])[0]
        usual = runner.run(model, INPUTS, ["O0"])[0]
    assert without.ok, without.message
    np.testing.assert_array_equal(without.outputs["z"], usual.outputs["z"])


def test_the_script_runs_what_the_adapter_runs(backend, model, tmp_path):
    registry, spec = backend
    adapter = registry.get(spec.name)()
    drawn = [adapter.draw_pipeline(random.Random(seed)) for seed in range(3)]
    passes = tuple(step for step in adapter.steps if "=" not in step)
    whole = [Pipeline("O1", passes[i : i + 9]) for i in range(0, len(passes), 9)]
    options = {step.partition("=")[0]: step for step in adapter.steps if "=" in step}
    levels = [*drawn, *whole[:2], Pipeline("O3", tuple(options.values()))]
    with BackendRunner(spec, registry) as runner:
        outcomes = runner.run(model, INPUTS, map(str, levels))
    (tmp_path / "model.onnx").write_bytes(model)
    np.savez(tmp_path / "inputs.npz", **INPUTS)
    programs = [adapter.repro_drawn([pipeline], foreign=False) for pipeline in levels]
    script = f"""
import numpy as np
inputs, model = dict(np.load("inputs.npz")), open("model.onnx", "rb").read()
for i, (level, program) in enumerate({list(zip(map(str, levels), programs))!r}):
    names = {{}}
    exec(program, names)
    np.savez(f"{{i}}.npz", **names["run"](model, inputs, level))
    np.savez("plain.npz", **names["run"](model, inputs, "O0"))
"""
    (tmp_path / "script.py").write_text(script)
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True, timeout=300)
    for i, outcome in enumerate(outcomes):
        assert outcome.ok, f"{outcome.level}: {outcome.message}"
        found = np.load(tmp_path / f"{i}.npz")
        for name, array in outcome.outputs.items():
            np.testing.assert_array_equal(found[name], array, err_msg=outcome.level)


def test_an_option_that_an_older_release_lacks_is_left_out():
    options = SimpleNamespace(graph_optimization_level=99, enable_mem_reuse=True)
    configure(options, ["layout=only", "enable_mem_reuse=0", "use_deterministic_compute=1"])
    assert vars(options) == {"graph_optimization_level": 99, "enable_mem_reuse": False}


# The adapters tell which passes changed a model, and compile without some of them.


@pytest.fixture(scope="module")
def padded() -> bytes:
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
def test_passes_are_told_and_switched_off(padded, backend, level, wanted):
    registry = BackendRegistry.discover()
    if registry.get(backend).missing():
        pytest.skip(f"{backend} is not installed")
    inputs = {"x": np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)}
    with BackendRunner(registry.spec(backend, {}), registry) as runner:
        passes = runner.fired_passes(padded, level)
        assert wanted in passes
        assert len(set(passes)) == len(passes)
        ruled = [i for i, name in enumerate(passes) if "RuleBased" in name]
        assert all(i < passes.index(wanted) for i in ruled[:1]), "rules follow what runs them"
        usual = runner.run(padded, inputs, [level])[0]
        for name in [wanted, passes[-1]]:
            other = runner.run(padded, inputs, [level], [name])[0]
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
    ("backend", "wanted"), [("onnxruntime", "Level1_RuleBasedTransformer"), ("tvm", "FuseOps")]
)
def test_passes_that_change_a_model_are_told(padded, backend, wanted):
    registry = BackendRegistry.discover()
    if registry.get(backend).missing():
        pytest.skip(f"{backend} is not installed")
    with BackendRunner(registry.spec(backend, {}), registry) as runner:
        assert wanted in (runner.changed_passes(padded, "O3") or ())
