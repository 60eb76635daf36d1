"""The built-in backends through the real sandbox: conformance, levels, what is unsupported."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from nnfuzz.backend.conformance import check_backend, standard_probes
from nnfuzz.backend.contract import BackendUnavailable
from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.ir.dtypes import FLOAT8S, INT4S, DType
from nnfuzz.sandbox.forkserver import ForkServer

REGISTRY = BackendRegistry.discover()
BACKENDS = ["onnxruntime", "tvm", "openvino"]
NO_ARRAYS = {
    "tvm": (*INT4S, *FLOAT8S),  # none of 4 bits; 8-bit floats are converted wrongly (TVM 0.27)
    "openvino": (DType.FLOAT8_E4M3FNUZ, DType.FLOAT8_E5M2FNUZ),
}
SPECS = [
    "onnxruntime",
    *(
        pytest.param(spec, marks=pytest.mark.slow)
        for spec in ("tvm", "openvino", "tvm,weights=inputs")
    ),
]


@pytest.fixture(scope="module", params=BACKENDS)
def runner(request):
    missing = REGISTRY.get(request.param).missing()
    if missing:
        pytest.skip(missing)
    with BackendRunner(REGISTRY.parse(request.param), REGISTRY) as runner:
        yield runner


def model(nodes, inputs, outputs, weights=None, opset=17, domains=()):
    def declare(values):
        return [
            helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(d), s)
            for k, (d, s) in values.items()
        ]

    graph = helper.make_graph(
        nodes,
        "g",
        declare(inputs),
        declare(outputs),
        [numpy_helper.from_array(v, k) for k, v in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    made: onnx.ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return made.SerializeToString()


F32 = np.dtype(np.float32)


@pytest.mark.parametrize("spec", SPECS)
def test_conformance(spec):
    missing = REGISTRY.get(spec.partition(",")[0]).missing()
    if missing:
        pytest.skip(missing)
    # The second executor shares the importer and most passes: the core models will do.
    probes = [p for p in standard_probes() if p.core or spec in BACKENDS]
    fates = check_backend(spec, probes=probes)
    missing = {name for name, fate in fates.items() if fate != "ok"}
    rare = {"int4", "uint4", "float8_e4m3fnuz", "float8_e5m2fnuz"}
    assert missing <= rare  # not every compiler takes them everywhere


def test_levels_agree_on_a_small_network(runner):
    rng = np.random.default_rng(0)
    weights = {
        "k": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "b": rng.standard_normal(4).astype(np.float32),
    }
    network = model(
        [
            helper.make_node("Conv", ["x", "k", "b"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Softmax", ["p"], ["s"], axis=1),
            helper.make_node("Split", ["s"], ["u", "v"], axis=0),
        ],
        {"x": (F32, [2, 3, 8, 8])},
        {"v": (F32, [1, 4, 4, 4]), "u": (F32, [1, 4, 4, 4])},
        weights,
    )
    inputs = {"x": rng.standard_normal((2, 3, 8, 8)).astype(np.float32)}
    outcomes = runner.run(network, inputs, runner.backend.levels)
    assert [(o.kind, o.message) for o in outcomes] == [(OutcomeKind.OK, "")] * len(outcomes)
    for outcome in outcomes:
        for name in "uv":
            np.testing.assert_allclose(
                outcome.outputs[name], outcomes[0].outputs[name], rtol=1e-4, atol=1e-6
            )
    assert not np.array_equal(outcomes[0].outputs["u"], outcomes[0].outputs["v"])


def test_a_graph_output_may_be_a_shape(runner):
    shape = model(
        [helper.make_node("Shape", ["x"], ["y"])],
        {"x": (F32, [2, 5])},
        {"y": (np.dtype(np.int64), [2])},
    )
    for outcome in runner.run(shape, {"x": np.ones((2, 5), np.float32)}):
        np.testing.assert_array_equal(outcome.outputs["y"], [2, 5])
        assert outcome.outputs["y"].dtype == np.int64


@pytest.mark.parametrize("dtype", list(DType), ids=lambda d: d.value)
def test_arrays_of_every_dtype_go_in_and_come_out(runner, dtype):
    there_and_back = model(
        [
            helper.make_node("Cast", ["x"], ["wide"], to=DType.FLOAT32.onnx),
            helper.make_node("Neg", ["wide"], ["n"]),
            helper.make_node("Neg", ["n"], ["m"]),
            helper.make_node("Cast", ["m"], ["y"], to=dtype.onnx),
        ],
        {"x": (dtype.numpy, [3])},
        {"wide": (F32, [3]), "y": (dtype.numpy, [3])},
        opset=21,
    )
    x = np.array([1, 0, 1]).astype(dtype.numpy)
    for outcome in runner.run(there_and_back, {"x": x}):
        if dtype in NO_ARRAYS.get(runner.name, ()):
            continue
        assert outcome.ok, outcome.message
        np.testing.assert_array_equal(outcome.outputs["wide"], [1, 0, 1])
        assert outcome.outputs["y"].dtype == x.dtype
        assert outcome.outputs["y"].tobytes() == x.tobytes()


def test_what_a_backend_does_not_implement_is_unsupported(runner):
    unknown = model(
        [helper.make_node("Celu" if runner.name == "tvm" else "Foo", ["x"], ["y"],
                          domain="" if runner.name == "tvm" else "nnfuzz.nowhere")],
        {"x": (F32, [2])},
        {"y": (F32, [2])},
        domains=() if runner.name == "tvm" else ("nnfuzz.nowhere",),
    )  # fmt: skip
    for outcome in runner.run(unknown, {"x": np.ones(2, np.float32)}):
        assert outcome.kind is OutcomeKind.UNSUPPORTED, outcome.message
        assert outcome.error_type


def test_an_invalid_model_is_an_exception(runner):
    clash = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (F32, [2, 3])},
        {"y": (F32, [2, 2])},
        {"w": np.ones((5, 2), np.float32)},
    )
    for outcome in runner.run(clash, {"x": np.ones((2, 3), np.float32)}):
        assert outcome.kind is OutcomeKind.EXCEPTION, outcome.message
        assert outcome.stage in (Stage.IMPORT, Stage.COMPILE)
        assert outcome.message and outcome.traceback


def test_a_missing_kernel_is_unsupported_by_onnxruntime():
    int16_max = model(
        [helper.make_node("Max", ["x", "x"], ["y"])],
        {"x": (np.dtype(np.int16), [2])},
        {"y": (np.dtype(np.int16), [2])},
    )
    with BackendRunner(REGISTRY.parse("onnxruntime"), REGISTRY) as runner:
        for outcome in runner.run(int16_max, {"x": np.ones(2, np.int16)}):
            assert outcome.kind is OutcomeKind.UNSUPPORTED
            assert "Could not find an implementation" in outcome.message


@pytest.mark.parametrize(
    ("node", "dtype", "told"),
    [
        (("LayerNormalization", {"axis": 0}), DType.BFLOAT16, "only support float32 and float16"),
        (("PRelu", {}), DType.INT32, ""),
    ],
)
def test_a_kernel_for_other_dtypes_only_is_unsupported_by_tvm(node, dtype, told):
    if missing := REGISTRY.get("tvm").missing():
        pytest.skip(missing)
    types, made = (dtype.numpy, [2]), helper.make_node(node[0], ["x", "x"], ["y"], **node[1])
    with BackendRunner(REGISTRY.parse("tvm"), REGISTRY) as runner:
        whole = model([made], {"x": types}, {"y": types})
        for outcome in runner.run(whole, {"x": np.ones(2, dtype.numpy)}):
            assert outcome.kind is OutcomeKind.UNSUPPORTED, outcome.message
            assert told in outcome.message


def test_onnxruntime_does_not_quantise_anew_on_another_grid():
    pair = [("QuantizeLinear", "xsz", "a"), ("DequantizeLinear", "asz", "b")]
    pair += [("QuantizeLinear", "bsw", "c"), ("DequantizeLinear", "csw", "y")]
    scalars = {"s": np.float32(1), "z": np.uint8(0), "w": np.uint8(1)}
    twice = model(
        [helper.make_node(op, list(names), [out]) for op, names, out in pair],
        {"x": (F32, [])},
        {"y": (F32, [])},
        {name: np.array(value) for name, value in scalars.items()},
    )
    with BackendRunner(REGISTRY.parse("onnxruntime"), REGISTRY) as runner:
        for outcome in runner.run(twice, {"x": np.array(100.0, np.float32)}, ["O0", "O3"]):
            assert outcome.outputs["y"] == 100


@pytest.mark.parametrize("spec", ["onnxruntime,provider=cuda", "tvm,target=cuda"])
def test_an_absent_device_is_explained(spec):
    with BackendRunner(REGISTRY.parse(spec), REGISTRY) as runner:
        try:
            runner.versions()
        except RunnerError as error:
            assert "BackendUnavailable" in str(error)
        else:
            pytest.skip("there is a device")


@pytest.mark.parametrize("starts", [False, True])
def test_a_gpu_counts_for_onnxruntime_if_a_session_gets_it(starts, monkeypatch):
    asked: list = []

    def session(model, providers):
        asked.extend(providers)
        names = ["CUDAExecutionProvider", "CPUExecutionProvider"]
        return SimpleNamespace(get_providers=lambda: names if starts else names[1:])

    fake = SimpleNamespace(
        __version__="1.31.1",
        get_available_providers=lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"],
        InferenceSession=session,
    )
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    adapter = REGISTRY.get("onnxruntime")(provider="cuda")
    if starts:
        assert adapter.versions() == {"onnxruntime": "1.31.1"}
    else:
        with pytest.raises(BackendUnavailable, match="does not start"):
            adapter.versions()
    assert asked[0] == ("CUDAExecutionProvider", {"use_tf32": "0"})


@pytest.mark.parametrize("exists", [False, True])
def test_a_gpu_counts_for_tvm_if_its_runtime_has_one(exists, monkeypatch):
    llvm = SimpleNamespace(llvm_version_major=lambda: 20)
    fake = SimpleNamespace(
        __version__="0.27",
        cuda=lambda: SimpleNamespace(exist=exists),
        target=SimpleNamespace(codegen=llvm),
    )
    monkeypatch.setitem(sys.modules, "tvm", fake)
    adapter = REGISTRY.get("tvm")(target="cuda")
    assert str(adapter.target("O0", "0.27")) == "tvm@0.27/cuda/O0"
    if exists:
        assert adapter.versions() == {"tvm": "0.27", "llvm": "20"}
    else:
        with pytest.raises(BackendUnavailable, match="needs an NVIDIA GPU"):
            adapter.versions()


@pytest.mark.gpu
@pytest.mark.parametrize("spec", ["onnxruntime,provider=cuda", "tvm,target=cuda"])
def test_conformance_on_a_gpu(spec):
    try:
        with BackendRunner(REGISTRY.parse(spec), REGISTRY) as runner:
            runner.versions()
    except RunnerError as error:
        pytest.skip(str(error).splitlines()[0])
    check_backend(spec)


def test_one_fork_server_holds_both_compilers():
    preload = [name for b in BACKENDS for name in REGISTRY.get(b).preload]
    tiny = model([helper.make_node("Neg", ["x"], ["y"])], {"x": (F32, [2])}, {"y": (F32, [2])})
    with ForkServer(preload) as server:
        for name in BACKENDS:
            with BackendRunner(REGISTRY.parse(name), REGISTRY, server) as runner:
                for outcome in runner.run(tiny, {"x": np.ones(2, np.float32)}):
                    np.testing.assert_array_equal(outcome.outputs["y"], [-1, -1])


def test_default_pairs():
    assert REGISTRY.get("tvm").default_levels() == ("O0", "O3")
    assert REGISTRY.get("onnxruntime").default_levels() == ("O0", "O3")


def test_products_with_weights_in_blocks_are_not_rounded():
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.integers(-60, 60, (64, 8)).astype(np.int8),
        "s": rng.uniform(0.01, 0.2, (2, 8)).astype(np.float32),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    ends = {"x": (F32, [4, 64])}, {"y": (F32, [4, 8])}
    product = model(nodes, *ends, weights, opset=21)
    x = rng.standard_normal((4, 64)).astype(np.float32)
    with BackendRunner(REGISTRY.parse("onnxruntime"), REGISTRY) as runner:
        outcomes = runner.run(product, {"x": x}, ["O0", "O3"])
    plain, fused = (outcome.outputs["y"] for outcome in outcomes)
    assert np.allclose(plain, fused, rtol=1e-5, atol=1e-5)


def test_onnxruntime_leaves_no_file_of_its_telemetry(tmp_path):
    backend = REGISTRY.get("onnxruntime")
    run = "import onnxruntime; onnxruntime.InferenceSession(open(0, 'rb').read())"
    model = standard_probes()[0].model
    environment = {k: v for k, v in os.environ.items() if k != "CI"}
    environment |= {**backend.environment, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", run], input=model, env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
