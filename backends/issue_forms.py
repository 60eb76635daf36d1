"""The issue trackers of the built-in backends' compilers, with the fields of their forms."""

from nnfuzz.backend.issue_form import IssueForm

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
