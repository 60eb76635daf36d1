"""`nnfuzz fuzz` in a CI: reports, a baseline, a focus."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.cli.campaigns import known_failures
from nnfuzz.store.store import Store
from tests.command import told

pytest.importorskip("onnxruntime")

BROKEN = '''
from nnfuzz.backends.onnxruntime import OnnxRuntime


class Broken(OnnxRuntime):
    """ONNX Runtime that refuses to build."""

    name = "broken"

    def build(self, module, level):
        raise ValueError("broken on purpose")
'''
SETTINGS = ("--set", "probe=0", "--set", "reduce=no")
FAST = ("--nodes", 2, "--exporter", "direct", "--quiet", "--seed", 1, *SETTINGS)


def fuzz(*arguments):
    return told("fuzz", *arguments)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "broken.py").write_text(BROKEN)
    return tmp_path


def test_findings_fail_until_they_are_in_the_baseline(here):
    broken = ("--plugin", "broken.py", "-b", "broken", "--tests", 2, *FAST)
    reports = ("--junit", "out.xml", "--summary-md", "out.md")
    code, _ = fuzz(*broken, *reports, "--out", "main")
    assert code == 1
    (failure,) = ElementTree.parse("out.xml").iter("failure")
    assert "broken on purpose" in failure.attrib["message"]
    (suite,) = ElementTree.parse("out.xml").getroot()
    assert suite.attrib["name"] == "nnfuzz fuzz broken"
    assert [case.attrib["classname"] for case in suite] == ["broken", "broken"]
    ((ran, name),) = [[case.attrib["name"] for case in suite]]
    assert ran == "campaign" and name.startswith("broken-broken-on-purpose")
    assert "### Failures" in (here / "out.md").read_text()
    code, shown = fuzz(*broken, *reports, "--out", "pr", "--set", "baseline=main/summary.json")
    assert code == 0 and "of known failures" in shown, shown
    assert not list(ElementTree.parse("out.xml").iter("failure"))
    assert "of known failures" in (here / "out.md").read_text()
    assert known_failures(Path("main"), BackendRegistry.discover(["broken.py"]))


def operators_of(folder):
    with Store.open(folder, write=False) as store:
        return [found.operators() for _, found in store.tests.features()]


@pytest.mark.slow
def test_every_model_touches_the_operator_of_the_focus(here):
    code, shown = fuzz("-b", "onnxruntime", "--tests", 6, "--focus", "Softmax", *FAST, "--out", "c")
    assert code in (0, 1), shown
    found = operators_of(here / "c")
    assert len(found) >= 4 and all("Softmax" in operators for operators in found)


@pytest.mark.slow
def test_every_model_of_the_focus_on_a_pass_is_changed_by_it(here):
    name = "ConstantFolding"
    code, shown = fuzz("-b", "onnxruntime", "--tests", 2, "--focus", name, *FAST, "--out", "c")
    assert code in (0, 1), shown
    with Store.open(here / "c", write=False) as store:
        assert json.dumps(store.config()["case"]["seed_models"]).count(".onnx") > 1


def test_a_misspelt_focus_is_refused_before_a_model_is_made(here, monkeypatch):
    monkeypatch.setattr("nnfuzz.corpus.producers.Producers", None)
    code, shown = fuzz("-b", "onnxruntime", "--focus", "Sofmax", *FAST, "--out", "c")
    assert code == 2 and "--focus 'Sofmax' is no operator; did you mean 'Softmax'" in shown
    reference = str(Path(__file__).parents[2] / "examples" / "hasty.py")
    code, shown = fuzz("-b", "hasty", "--plugin", reference, "--focus", "Fusion", *FAST)
    assert code == 2 and "no compiler here names its passes" in shown


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--focus", "Add", "--resume"), "leave out --resume"),
        (("--focus", "Sofmax"), "did you mean 'Softmax'"),
        (("--set", "baseline=broken.py"), "--set baseline broken.py"),
        (("--set", "baseline=."), "holds neither a finding nor a summary.json"),
    ],
)
def test_wrong_usage_leaves_no_campaign_behind(here, monkeypatch, arguments, message):
    monkeypatch.setattr("nnfuzz.cli.campaigns.TRIED", 8)
    code, shown = fuzz("-b", "onnxruntime", "--tests", 1, *FAST, "--out", "c", *arguments)
    assert code == 2 and message in shown, shown
    assert not (here / "c").exists()
