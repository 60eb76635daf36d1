"""The issue trackers of the built-in backends' compilers, with the fields of their forms."""

from nnfuzz.backend.contract import IssueForm

ONNX_RUNTIME = IssueForm(
    "microsoft/onnxruntime",
    (
        ("Describe the issue", "{symptom}\n\n{report}"),
        ("To reproduce", "{repro}"),
        ("Urgency", "Not urgent: found by fuzzing."),
        ("Platform", "Linux"),
        ("OS Version", "{platform}"),
        ("ONNX Runtime Installation", "Released Package"),
        ("ONNX Runtime Version or Commit ID", "{versions}"),
        ("ONNX Runtime API", "Python"),
        ("Architecture", "{machine}"),
        ("Execution Provider", "{device}"),
    ),
)
TVM = IssueForm(
    "apache/tvm",
    (
        ("Expected behavior", "{expected}"),
        ("Actual behavior", "{symptom}\n\n{error}\n\n{report}"),
        ("Environment", "{platform}\n\n{versions}"),
        ("Steps to reproduce", "{repro}"),
        ("Triage", "* needs-triage"),
    ),
    "[Bug] ",
)
OPENVINO = IssueForm(
    "openvinotoolkit/openvino",
    (
        ("OpenVINO Version", "{versions}"),
        ("Operating System", "{platform}"),
        ("Device used for inference", "{device}"),
        ("Framework", "ONNX"),
        ("Model used", "A small generated model; the script below holds it."),
        ("Issue description", "{symptom}\n\n{report}"),
        ("Step-by-step reproduction", "{repro}"),
        ("Relevant log output", "{error}"),
    ),
    "[Bug]: ",
)
PYTORCH = IssueForm(
    "pytorch/pytorch",
    (
        ("🐛 Describe the bug", "{symptom}\n\n{repro}\n\n{report}"),
        ("Error logs", "{error}"),
        ("Versions", "{platform}\n\n{versions}"),
    ),
)
ONNX = IssueForm(
    "onnx/onnx",
    (
        ("Is the issue related to model conversion?", "No."),
        ("Describe the bug", "{symptom}\n\n{report}"),
        ("System information", "{platform}\n\n{versions}"),
        ("Reproduction instructions", "{repro}"),
        ("Expected behavior", "{expected}"),
    ),
)
IREE = IssueForm(
    "iree-org/iree",
    (
        ("What happened?", "{symptom}\n\n{error}\n\n{report}"),
        ("Steps to reproduce your issue", "{repro}"),
        ("What component(s) does this issue relate to?", "Compiler"),
        ("Version information", "{platform}\n\n{versions}"),
        ("Additional context", "{expected}"),
    ),
)
_TENSORRT = (
    ("Description", "{symptom}\n\n{expected}\n\n{report}"),
    ("Environment", "{device}, {platform}\n\n{versions}"),
    ("Relevant Files", "The script below holds the model, or lies beside it."),
    ("Steps To Reproduce", "{repro}\n\n{error}"),
)
TENSORRT = IssueForm("NVIDIA/TensorRT", _TENSORRT)
TENSORRT_RTX = IssueForm("NVIDIA/TensorRT-RTX", _TENSORRT)


def _of_model(repository: str) -> IssueForm:
    """The form for trackers of model optimisers, which have short forms or none."""
    return IssueForm(
        repository,
        (
            ("Describe the bug", "{symptom}\n\n{error}"),
            ("Model", "A small generated model; the script below holds it."),
            ("To reproduce", "{repro}"),
            ("Expected behavior", "{expected}"),
            ("Environment", "{platform}\n\n{versions}"),
            ("Additional context", "{report}"),
        ),
    )


ONNXSIM = _of_model("onnxsim/onnxsim")
ONNXSLIM = _of_model("inisis/OnnxSlim")
ONNXOPTIMIZER = _of_model("onnx/optimizer")
ONNXSCRIPT = _of_model("microsoft/onnxscript")
