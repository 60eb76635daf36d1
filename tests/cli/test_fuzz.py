"""`nnfuzz fuzz`: sessions, exit codes, known failures, a focus, and what a CI gets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.bugs.bug import BugState
from nnfuzz.cli.campaigns import known_failures, known_occurrences, refuse_finished
from nnfuzz.cli.commands.fuzz import exit_code, nothing_ran
from nnfuzz.cli.errors import FAULT, FINDINGS, OK, USAGE
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.records.rows import HangRow, Occurrence
from nnfuzz.store.store import Store
from nnfuzz.store.summary import Summary
from nnfuzz.testcase.identity import Numbered
from tests.attacks import samples
from tests.bugs.conftest import BUG
from tests.command import nnfuzz, told


@pytest.mark.parametrize(
    "summary", [None, "{", "[]", '{"tests": 29}', '{"tests": 9, "not_run": {"export": 20}}']
)
def test_what_was_killed_between_its_last_test_and_its_summary_goes_on(tmp_path, summary):
    folder = samples.campaign(tmp_path / "c")  # of 30 tests
    with Store.open(folder) as store:
        config = CampaignConfig.from_json(store.config())
        if summary is not None:
            (folder / "summary.json").write_text(summary)
        refuse_finished(store, config)
        (folder / "summary.json").write_text('{"tests": 28, "not_run": {"export": 2}}')
        with pytest.raises(ConfigError, match="reached its limit"):
            refuse_finished(store, config)


def test_known_failures_are_counted_by_bug(tmp_path):
    own, gone = BUG.signatures[0], "1" * 12
    with Store.create(tmp_path / "campaign", {"seed": 1}) as store:
        store.sessions.begin()
        for index, (signature, bucket) in enumerate(
            [(own, "known"), (own, "known"), (gone, "known"), ("2" * 12, "known"), (own, "finding")]
        ):
            test = Numbered(1, index)
            store.occurrences.add(Occurrence(signature, test, bucket, "toy crash compile"))
    duplicate = replace(
        BUG, signatures=(gone,), keys=(), state=BugState.DUPLICATE, duplicate_of="numpy/pow"
    )
    bugs = {"numpy/gone": duplicate, "numpy/pow": BUG}
    assert known_occurrences(tmp_path / "campaign", bugs) == {"numpy/pow": 3, "": 1}


HANG = HangRow(Numbered(1, 19), "toy", "O0", "compile", 30.0, "5i6")


@pytest.mark.parametrize(
    "summary, interrupted, code, why",
    [
        (Summary(), False, USAGE, "the time was over before the first one"),
        (Summary(), True, USAGE, "interrupted before the first one ended"),
        (Summary(not_run={"export": 3}), False, USAGE, "no index gave a model (export 3)"),
        (Summary(not_run={"fault": 3}, faults=3), False, FAULT, "nnfuzz itself failed"),
        (
            Summary(unconfirmed_hangs=(HANG, HANG)),
            False,
            USAGE,
            "2 look like hangs: --resume confirms them",
        ),
    ],
)
def test_a_campaign_without_a_test_says_why_and_fails(summary, interrupted, code, why):
    assert exit_code(summary) == code
    assert why in nothing_ran(summary, interrupted)


@pytest.mark.parametrize(
    "findings, faults, code", [(0, 0, OK), (1, 0, FINDINGS), (0, 2, FAULT), (1, 2, FINDINGS)]
)
def test_what_is_not_confirmed_is_no_finding(findings, faults, code):
    summary = Summary(tests=9, findings=findings, faults=faults, flaky=3, unconfirmed_hangs=(HANG,))
    assert exit_code(summary) == code


def test_no_time_for_a_single_test(tmp_path):
    done = nnfuzz("fuzz", "-b", "onnxruntime", "--time", "0.000001s", "--out", tmp_path / "out")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("note: starting the compilers and PyTorch")
    assert "error: not a single test was run: the time was over" in done.stderr
    assert "nothing found" not in done.stdout


def test_a_part_without_any_index_is_no_failure(tmp_path):
    fuzz = ("fuzz", "-b", "onnxruntime", "--seed", "7", "--set", "shard=2/8", "--set", "probe=0")
    done = nnfuzz(*fuzz, "--tests", "1", "--out", tmp_path / "out", "--quiet")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "part 2/8 of --tests 1 is empty" in done.stderr and "error" not in done.stderr


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
    code, shown = fuzz(*broken, *reports, "--out", "pr", "--known", "main/summary.json")
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
        (("--known", "broken.py"), "--known broken.py"),
        (("--known", "."), "holds neither a finding nor a summary.json"),
    ],
)
def test_wrong_usage_leaves_no_campaign_behind(here, monkeypatch, arguments, message):
    monkeypatch.setattr("nnfuzz.cli.campaigns.TRIED", 8)
    code, shown = fuzz("-b", "onnxruntime", "--tests", 1, *FAST, "--out", "c", *arguments)
    assert code == 2 and message in shown, shown
    assert not (here / "c").exists()
