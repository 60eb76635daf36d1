"""PyTorch's exporters as systems under test: what they get wrong, who is asked, and the scripts."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from nnfuzz.backends import exporters
from nnfuzz.backends.exporters import (
    TorchExport,
    TorchScript,
    blamed,
    check_exported,
    distance,
    nearest,
)
from onnx import helper

import nnfuzz
from nnfuzz.backend.complaint import CompilerError, ComplaintKind
from nnfuzz.backend.conformance import check_backend, standard_probes
from nnfuzz.backend.modules import read_source
from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner

PLUGIN = Path(__file__).with_name("toy_exporters.py")
NAMES = ("exporter-torchscript", "exporter-dynamo", "torch-export")
PROBES = {probe.name: probe for probe in standard_probes()}
ADD = PROBES["add"]


@pytest.fixture(scope="module")
def registry():
    return BackendRegistry.discover([PLUGIN])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_conformance(name):
    missing = BackendRegistry.discover().get(name).missing()
    if missing:
        assert "pip install" in missing
        pytest.skip(missing)
    probes = [PROBES["add"], PROBES["two outputs, one used inside"], PROBES["input not used"]]
    assert set(check_backend(name, probes=probes).values()) == {"ok"}


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [
        ("raises", OutcomeKind.EXCEPTION, "cannot translate aten.add"),
        ("refuses", OutcomeKind.UNSUPPORTED, "is not supported"),
        ("declares", OutcomeKind.EXCEPTION, "declares int64[3, 4] for an output that is float32"),
        ("invalid", OutcomeKind.EXCEPTION, "No Op registered for Adx"),
    ],
)
def test_a_fault_is_one_of_the_stage_export(registry, name, kind, told):
    with BackendRunner(registry.spec(name), registry) as runner:
        eager, exported = runner.run(ADD.model, ADD.inputs, ["eager", "optimised"])
    assert eager.ok and eager.baseline
    assert (exported.kind, exported.stage) == (kind, Stage.EXPORT)
    assert told in exported.message


@pytest.mark.slow
def test_the_exporter_is_accused_of_a_model_that_computes_something_else():
    case = nnfuzz.case_from_onnx(ADD.model, inputs=ADD.inputs)
    with nnfuzz.Experiment(["wrong"], plugins=[PLUGIN]) as experiment:
        result = experiment(case)
        (finding,) = experiment.findings(result)
    assert finding.failure.levels == ("optimised",)
    reduced = nnfuzz.reduce(finding, budget=30)
    assert reduced.localisation["party"] == "exporter"
    assert "torch.ops.aten.add" in reduced.localisation["module"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("backend", "level"), [(TorchScript, "plain"), (TorchExport, "exported")])
def test_the_script_for_reports_runs_alone(backend, level):
    program = backend().repro()
    assert "nnfuzz" not in program and "type: ignore" not in program
    code, names = read_source(ADD.model).code(), {}
    exec("import base64\nimport numpy as np\nimport torch\n" + code + program, names)
    for wanted in ("eager", level):
        found = names["run"](names["Module"](), ADD.inputs, wanted)
        np.testing.assert_array_equal(found["y"], ADD.expected["y"])


def model(kind: int, shape: tuple[int | None, ...]) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, kind, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(
    ("kind", "shape", "told"),
    [(1, (2, 3), ""), (1, (None, 3), ""), (11, (2, 3), "float64"), (1, (2, 4), "float32")],
)
def test_declared_outputs_are_those_of_the_module(kind, shape, told):
    found = [np.zeros((2, 3), np.float32)]
    if not told:
        check_exported(model(kind, shape), found)
        return
    with pytest.raises(ValueError, match=told):
        check_exported(model(kind, shape), found)
    with pytest.raises(ValueError, match="has 1 outputs"):
        check_exported(model(1, (2, 3)), found * 2)


def test_the_reference_evaluator_acquits_and_does_not_accuse():
    wanted = [np.array([1, 2], np.float32), np.array([3.0])]
    wrong = [wanted[0] + 1, wanted[1]]
    late = [wanted[0], wanted[1].astype(np.float32)]

    def fails():
        raise ValueError("not here")

    assert nearest(wanted, wanted, fails)[0] is wanted[0]
    assert nearest(wrong, wanted, fails)[0] is wrong[0]
    found = nearest(wrong, wanted, lambda: late)
    assert [distance(array, like) for array, like in zip(found, wanted)] == [0, 0]
    error = RuntimeError("no shape")
    assert blamed(error, fails) is error
    assert isinstance(blamed(error, lambda: late), NotImplementedError)


def test_distances():
    one = np.array([1, np.nan, np.inf], np.float32)
    assert distance(one, one) == 0
    assert distance(one.astype(np.float64), one) == np.inf
    assert distance(np.array([1, 0, np.inf], np.float32), one) == np.inf
    assert distance(np.array([1.5, np.nan, np.inf], np.float32), one) == 0.5
    assert distance(np.zeros((0, 2)), np.zeros((0, 2))) == 0


DYNAMO = """Failed to convert the exported program to an ONNX model. This is step 3/3. \
Next steps:
- If there is a missing ONNX function, implement it and register it to the registry.
- If there is an internal error during ONNX conversion, debug the error and submit a PR.

## Exception summary

<class 'torch.onnx._internal.exporter._errors.DispatchError'>: {cause}
⬆️
<class 'torch.onnx._internal.exporter._errors.ConversionError'>: Error when translating node %sort

(Refer to the full stack trace above for more information.)"""


@pytest.mark.parametrize(
    ("message", "kind", "subject"),
    [
        (
            DYNAMO.format(cause="No ONNX function found for <OpOverload(op='aten.sort')>"),
            ComplaintKind.UNSUPPORTED,
            "No ONNX function found",
        ),
        (DYNAMO.format(cause="sizes differ"), ComplaintKind.ERROR, "sizes differ"),
        (
            "Exporting the operator 'aten::sinh' to ONNX opset version 20 is not supported. Please "
            "feel free to request support or submit a pull request on PyTorch GitHub.",
            ComplaintKind.UNSUPPORTED,
            "aten::sinh",
        ),
        (
            "[ShapeInferenceError] (op_type:Softplus, node name: /Softplus): X typestr: T, has "
            "unsupported type: tensor(bfloat16)",
            ComplaintKind.DTYPE,
            "an operator of ONNX does not take bfloat16",
        ),
    ],
)
def test_complaints_are_the_cause_without_advice(message, kind, subject):
    error = CompilerError(Stage.EXPORT, "torch.onnx.OnnxExporterError", message)
    complaint = exporters.Exporter.complaint(error)
    assert complaint.kind is kind and subject in complaint.subject
    assert "Next steps" not in complaint.subject and "feel free" not in complaint.subject
