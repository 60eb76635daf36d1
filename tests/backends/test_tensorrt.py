"""The adapters of TensorRT: parsing and building without a GPU, execution with a fake runner."""

import numpy as np
import pytest
from nnfuzz.backends import tensorrt
from nnfuzz.backends.tensorrt import TensorRT, TensorRTForRTX

from nnfuzz.backend.complaint import CompilerError, ComplaintKind, Stage
from nnfuzz.backend.conformance import check_backend, standard_probes
from nnfuzz.backend.contract import BackendUnavailable
from tests.models import chain

installed = pytest.mark.skipif(bool(TensorRTForRTX.missing()), reason=str(TensorRTForRTX.missing()))
alone = pytest.mark.skipif(tensorrt.has_gpu(), reason="there is a GPU")
X = np.array([[-1, 0.5, 2], [3, 4, 5]], np.float32)


@installed
@alone
def test_conformance_up_to_the_engine():
    probes = [probe for probe in standard_probes() if probe.core]
    fates = check_backend("tensorrt-rtx", probes=probes)
    assert set(fates.values()) == {"compiled, not run"}


@installed
@alone
def test_without_a_gpu_it_says_what_it_builds_for():
    assert TensorRTForRTX().versions()["device"] == "none, builds for SM89"
    with pytest.raises(BackendUnavailable, match="does not build for SM90"):
        TensorRTForRTX(capability="SM90").versions()


@alone
def test_the_library_that_needs_a_gpu_says_so():
    with pytest.raises(BackendUnavailable, match="tensorrt needs an NVIDIA GPU"):
        TensorRT().versions()


@installed
def test_an_engine_is_built():
    adapter = TensorRTForRTX()
    assert len(adapter._plan(chain("Relu"), 3)) > 100


def test_execution_goes_by_name_and_keeps_no_buffer_of_the_runner(monkeypatch):
    buffer = np.zeros((2, 3), np.float32)

    def infer(inputs):
        buffer[:] = np.maximum(inputs["x"], 0)
        return {"y": buffer}

    monkeypatch.setattr(tensorrt, "has_gpu", lambda: True)
    monkeypatch.setattr(tensorrt, "_engine", lambda plan: infer)
    monkeypatch.setattr(TensorRT, "_plan", lambda self, model, level: b"plan")
    program = TensorRT().build(b"", "O3")
    first = program({"x": X})["y"]
    program({"x": -X})
    np.testing.assert_array_equal(first, np.maximum(X, 0))


@pytest.mark.parametrize(
    ("kind", "message", "operators"),
    [
        (
            ComplaintKind.UNSUPPORTED,
            "INVALID_NODE at ArgMax in ModelImporter.cpp:parseNode: Invalid Node - a\n"
            "ITensor::getDimensions: Error Code 3: API Usage Error (at least 2 dimensions are "
            "required)\n[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime",
            ("ArgMax",),
        ),
        (
            ComplaintKind.UNSUPPORTED,
            "INVALID_NODE at Constant in ModelImporter.cpp:parseNode: Invalid Node - a\n"
            "WeightsContext.cpp:519: Found unsupported datatype (5) when importing initializer: ",
            ("Constant",),
        ),
        (
            ComplaintKind.ERROR,
            "INVALID_NODE at Slice in ModelImporter.cpp:parseNode: Assertion failed: axes differ",
            ("Slice",),
        ),
    ],
)
def test_the_parser_tells_operator_and_place(kind, message, operators):
    error = CompilerError(Stage.IMPORT, "nnfuzz.backends.tensorrt.ParserError", message)
    found = TensorRT.complaint(error)
    assert (found.kind, found.operators) == (kind, operators)
    assert found.location == "ModelImporter.cpp:parseNode"
    assert "catchCudaError" not in found.subject


@installed
def test_the_script_for_reports_runs_alone():
    space: dict = {"np": np}
    exec(TensorRTForRTX().repro(), space)
    found = space["run"](chain("Relu"), {"x": X}, "O3")
    assert found == {} or tensorrt.has_gpu()
    with pytest.raises(RuntimeError, match="at Relx:"):
        space["run"](chain("Relx"), {"x": X}, "O3")


@pytest.mark.gpu
@installed
def test_conformance_on_a_gpu():
    if not tensorrt.has_gpu():
        pytest.skip("no GPU")
    fates = check_backend("tensorrt-rtx")
    assert fates["add"] == "ok"


@pytest.mark.parametrize(
    ("kind", "logged", "said", "place"),
    [
        (
            ComplaintKind.ERROR,
            "Myelin ([myelin_graph.h:1295: attachExceptionMsgToGraph] MyelinCheckException: "
            "deconv_lowering.cpp:34: CHECK(is_tensor()) failed.  In compileGraph at /_src/a.cpp:2)",
            "CHECK(is_tensor()) failed.",
            "deconv_lowering.cpp",
        ),
        (
            ComplaintKind.ERROR,
            "Myelin ([shape.cpp:175: ~op_constraints_msg_streamer_t] \nError during shape inference"
            " of\na_normalized : f32[] = inorm(a, b)\nError is:\nelements must be > 1 but got1 "
            "In compileGraph at /_src/a.cpp:2012)",
            "elements must be > 1 but got1",
            "shape.cpp",
        ),
        (
            ComplaintKind.UNSUPPORTED,
            "Internal Error (Assertion !layerImpls.empty() failed. Nms_4_0 has no runners that "
            "implement it In getSupportedFormats at /_src/b.cpp:48)",
            "Assertion !layerImpls.empty() failed. Nms_4_0 has no runners that implement it",
            "",
        ),
    ],
)
def test_the_builder_tells_what_is_wrong_and_where(kind, logged, said, place):
    message = f"IBuilder::buildSerializedNetwork: Error Code 1: {logged}"
    error = CompilerError(Stage.COMPILE, "nnfuzz.backends.tensorrt.BuilderError", message)
    found = TensorRT.complaint(error)
    assert (found.kind, found.subject) == (kind, said)
    assert not place or found.location == place
