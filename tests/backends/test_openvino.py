"""OpenVINO: its levels, and the passes that it names."""

import os

import numpy as np
import pytest
from nnfuzz.backends.openvino import OpenVino
from nnfuzz.backends.openvino_trace import Trace, bare, plainest, traced

from nnfuzz.backend.complaint import CompilerError, ComplaintKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from tests.models import chain

needs_openvino = pytest.mark.skipif(bool(OpenVino.missing()), reason=str(OpenVino.missing()))
MODEL = chain("Relu", "Neg")
X = np.array([[-1, 0.5, 2], [3, 4, 5]], np.float32)
HEAD = """\
Exception from src/inference/src/cpp/core.cpp:105:
Check 'false' failed at src/frontends/common_translators/src/unconverted_ops_report.cpp:151:
FrontEnd API failed with OpConversionFailure:
Model wasn't fully converted. Failed operations detailed log:
"""
MISSED = "-- CumProd-26 with a message:\nUnsupported padding mode: [wrap]\n\n"
FOLLOWS = """\
-- ReduceMax-26 with a message:
Check '(supported)' failed at src/frontends/onnx/frontend/src/op/reduce.cpp:134:
While validating ONNX node '<Node(ReduceMax): ReduceMax_15>':
Unsupported input type dynamic

"""
WRONG = """\
-- QLinearMatMul-26 with a message:
While validating ONNX node '<Node(QLinearMatMul): q>': Check 'valid' failed at src/common.cpp:230:
FrontEnd API failed with GeneralFailure:
Axis 1 out of tensor range [-1, 0]

"""
CONTRIB = """\
-- com.microsoft.MatMulNBits with a message:
Check '(ov::as_type<v0::Constant>(b.get_node()) != nullptr)' failed at src/matmulnbits.cpp:117:
While validating ONNX node '<Node(MatMulNBits): y>':
MatMulNBits limitation: accepting only a constant as a B input

"""
TAIL = "Summary:\n-- Conversion is failed for: ReduceMax-26\n\n\n"
THROWN = """\
Exception from src/inference/src/dev/plugin.cpp:54:
Exception from src/core/src/pass/graph_rewrite.cpp:298:
[Decompose] END: node: opset7::Einsum v6 (f32[3]) -> (f32[3]) CALLBACK HAS THROWN: Check 'a == b' \
failed at src/transpose.hpp:3:
While validating node 'opset1::Transpose T (f32[24]) -> (dynamic[...])' with friendly_name 'T':
Shape inference input shapes {[24,3,3],[4]}
Input order must have shape [n], where n is the rank of arg.

"""


def read(message, stage=Stage.IMPORT):
    return OpenVino.complaint(CompilerError(stage, "RuntimeError", message))


@pytest.mark.parametrize(
    ("message", "kind", "subject", "operators"),
    [
        (HEAD + FOLLOWS + TAIL, "dtype", "Unsupported input type dynamic", ("ReduceMax",)),
        (HEAD + MISSED + TAIL, "unsupported", "Unsupported padding mode: [wrap]", ("CumProd",)),
        (HEAD + FOLLOWS + MISSED + TAIL, "unsupported", "Unsupported padding", ("CumProd",)),
        (HEAD + CONTRIB, "unsupported", "MatMulNBits limitation", ("com.microsoft.MatMulNBits",)),
        (HEAD + MISSED + FOLLOWS + WRONG + TAIL, "error", "Axis 1 out", ("QLinearMatMul",)),
    ],
)
def test_of_operators_that_fail_together_those_count_that_fail_by_themselves(
    message, kind, subject, operators
):
    found = read(message)
    assert (found.kind, found.operators) == (ComplaintKind(kind), operators)
    assert found.subject.startswith(subject)
    told = [text for text, _ in found.others]
    assert told == (["Unsupported padding mode: [wrap]"] if WRONG in message else [])


def test_operators_without_a_conversion_are_unsupported():
    lacking = "-- No conversion rule found for operations: BitCast-26, Optional-26\n"
    found = read(f"{HEAD}Summary:\n{lacking}To facilitate the conversion, refer to docs\n")
    assert found.kind is ComplaintKind.UNSUPPORTED
    assert found.operators == ("BitCast", "Optional")


def test_an_output_that_its_implementation_lacks_is_unsupported():
    text = "Expected output number of Split node is 3 while the implementation provides 1 outputs\n"
    assert read(text).kind is ComplaintKind.UNSUPPORTED
    found = read(f"{HEAD}-- No conversion rule found for operations: com.microsoft.GatedRMSNorm\n")
    assert found.operators == ("com.microsoft.GatedRMSNorm",)


def test_a_transformation_that_throws_is_the_location():
    found = read(THROWN, Stage.COMPILE)
    assert found.subject == "Input order must have shape [n], where n is the rank of arg."
    assert (found.kind, found.location) == (ComplaintKind.ERROR, "Decompose")


def test_a_plugin_that_supports_no_unknown_sizes_says_so():
    found = read("Details:\nNot Implemented:\nDoesn't support dynamic weights shape\n")
    assert found.kind is ComplaintKind.UNSUPPORTED


@needs_openvino
@pytest.mark.parametrize("level", OpenVino.levels)
def test_the_script_for_reports_runs_alone_at_every_level(level):
    space: dict = {}
    exec(OpenVino().repro(), space)
    np.testing.assert_array_equal(space["run"](MODEL, {"x": X}, level)["y"], -np.maximum(X, 0))


@needs_openvino
def test_collections_of_passes_are_switched_off():
    registry = BackendRegistry.discover()
    with BackendRunner(registry.parse("openvino"), registry) as runner:
        assert runner.fired_passes(MODEL, "O0") == []
        passes = runner.fired_passes(MODEL, "O3")
        (outcome,) = runner.run(MODEL, {"x": X}, ["O3"], without=passes)
    np.testing.assert_array_equal(outcome.outputs["y"], -np.maximum(X, 0))


# What OpenVINO's trace says of passes.


def test_a_pass_that_reports_a_change_is_known_from_the_others():
    trace = Trace()
    trace.read(
        "m_start;M\nt;ov::pass::Fold;M;12;1\nt;Keep;M;3;0\nt;ov::pass::Fold;M;1;0\nm;M;20;1\n"
    )
    assert (trace.ran, trace.changed) == (["Fold", "Keep"], ["Fold"])


def test_names_lose_their_namespaces_alone():
    assert bare("ov::intel_cpu::pass::MulAddToFMA") == "MulAddToFMA"
    assert bare("passing") == "passing"


@pytest.mark.skipif(bool(OpenVino.missing()), reason=str(OpenVino.missing()))
def test_the_trace_ends_with_its_block_and_passes_that_always_report_a_change_say_nothing():
    backend, level = OpenVino(), OpenVino.default_levels()[-1]
    module = (plainest(), (), None)
    assert not backend.changed_passes(module, level)
    assert "NopElimination" in backend.known_passes(module, level)
    with traced() as trace:
        pass
    assert not trace.ran and "OV_ENABLE_PROFILE_PASS" not in os.environ
