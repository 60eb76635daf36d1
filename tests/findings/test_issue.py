"""`nnfuzz file`: the form of each tracker."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nnfuzz.backend.contract import IssueForm
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.bugs.adding import Adder
from nnfuzz.bugs.bug import BugState
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.findings.folder import write_finding
from tests.bugs.conftest import TODAY
from tests.command import told

PLANTED = Path(__file__).parent / "planted.py"
EXAMPLES = Path(__file__).parents[2] / "examples"
FORMS = {
    "onnxruntime": ("microsoft/onnxruntime", "ONNX Runtime Version or Commit ID"),
    "tvm": ("apache/tvm", "Steps to reproduce"),
    "openvino": ("openvinotoolkit/openvino", "Relevant log output"),
    "torch": ("pytorch/pytorch", "🐛 Describe the bug"),
    "iree": ("iree-org/iree", "Steps to reproduce your issue"),
    "tensorrt": ("NVIDIA/TensorRT", "Relevant Files"),
    "tensorrt-rtx": ("NVIDIA/TensorRT-RTX", "Steps To Reproduce"),
    "onnxsim": ("onnxsim/onnxsim", "To reproduce"),
    "onnxslim": ("inisis/OnnxSlim", "To reproduce"),
    "onnxoptimizer": ("onnx/optimizer", "To reproduce"),
    "onnxscript": ("microsoft/onnxscript", "To reproduce"),
    "ort-transformers": ("microsoft/onnxruntime", "To reproduce"),
    "onnx-version": ("onnx/onnx", "Is the issue related to model conversion?"),
}


@pytest.fixture(params=["value", "raise_all", "abort"])
def finding(request, tmp_path, finding_of):
    """The folder of a finding, with its script."""
    found = finding_of(f"planted,bug={request.param}")
    return write_finding(tmp_path / "finding", found, "def run(model, inputs, level):\n    pass\n")


def run(*arguments):
    return told("file", *arguments)


@pytest.mark.parametrize("backend", FORMS)
def test_the_form_of_each_tracker(finding, backend):
    repository, heading = FORMS[backend]
    form = BackendRegistry.discover().get(backend).issue_form
    assert form.repository == repository
    code, shown = run(finding, "--tracker", backend)
    assert code == 0 and f"\n### {heading}\n" in shown
    assert shown.startswith(form.prefix) and "{" + "symptom}" not in shown
    assert shown.count("```") % 2 == 0
    assert f"gh search issues --repo {repository} -- " in shown


def test_an_issue_tells_the_device_of_the_failing_target(finding):
    _, shown = run(finding, "--tracker", "openvino")
    assert "### Device used for inference\n\nCPU\n" in shown


def test_words_of_a_finding_are_text_in_every_form(finding):
    """Versions and title come from a folder that anybody may have written."""
    path = finding / "finding.json"
    data = json.loads(path.read_text())
    data["versions"] = {"<script>x</script>": "](javascript:alert(1))\n::error::mine"}
    data["signature"]["title"] = "wrong\n::error::mine"
    path.write_text(json.dumps(data))
    for backend in FORMS:
        code, shown = run(finding, "--tracker", backend)
        assert code == 0
        assert not any(line.startswith("::error::") for line in shown.splitlines())
        assert "<script>" not in shown
        assert shown.count("](javascript") == shown.count("\\](javascript") > 0


def test_a_section_may_hold_nothing_unknown():
    with pytest.raises(ValueError, match="'colour' is none of symptom"):
        IssueForm("a/b", (("Describe", "{colour}"),))


def test_what_is_no_finding_and_who_names_no_tracker(finding, tmp_path):
    assert run(tmp_path)[0] == 2
    assert BackendRegistry.discover().get("torch-export").issue_form is not None
    code, shown = run(finding, "--plugin", PLANTED)
    assert code == 0 and "### How to reproduce\n" in shown and "### Report\n" in shown


@pytest.fixture
def filed(finding, tmp_path, registry):
    """A ledger with the bug of the finding, and its name."""
    ledger = Ledger(tmp_path / "bugs")
    (added,) = Adder(ledger, registry, TODAY, trusted=lambda folder: str).add_all(finding)
    return ledger, added.name


def test_nothing_is_filed_twice(finding, filed, tmp_path):
    ledger, name = filed
    at = ("--plugin", PLANTED, "--ledger", ledger.folder)
    code, shown = run(finding, *at)
    assert code == 0 and "It is known in the releases 1.0" in shown
    assert f"nnfuzz bugs set {name} state=filed upstream=URL" in shown
    address = "https://example.org/7"
    ledger.put(name, replace(ledger.bug(name), state=BugState.FILED, upstream=address))
    code, shown = run(finding, *at)
    assert code == 2 and f"{name} is filed already {address}; --again" in shown
    assert run(ledger.place(name), *at)[0] == 2
    assert run(finding, *at, "--again")[0] == 0


def test_the_plugin_of_a_finding_names_the_tracker(tmp_path, finding_of):
    plugin = tmp_path / "hasty.py"
    shutil.copy(EXAMPLES / "hasty.py", plugin)
    found = finding_of("planted,bug=value")
    spec = BackendRegistry.discover([plugin]).spec("hasty")
    found = replace(found, backend=replace(spec, plugins=(str(plugin),)))
    folder = write_finding(tmp_path / "finding", found, "")
    code, shown = run(folder, "--tracker", "hasty")
    assert code == 2 and f"add --plugin {folder / plugin.name} if you trust it" in shown
    code, shown = run(folder, "--tracker", "hasty", "--plugin", plugin)
    assert code == 0 and "### What happens\n" in shown
