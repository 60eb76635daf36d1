"""What the end of a campaign says of how much was compared."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.campaign.session import CampaignResult
from nnfuzz.cli.progress import subject
from nnfuzz.cli.reports import summary_text
from nnfuzz.records.config import CampaignConfig
from nnfuzz.store.summary import Summary
from nnfuzz.testcase.case import CaseConfig


def shown_of(**figures):
    """The lines on a campaign without findings."""
    config = CampaignConfig(tuple(map(BackendRegistry.discover().parse, ("onnxruntime",))))
    text = summary_text(CampaignResult(Path("c"), Summary(**figures), [], {}), config)
    return [line.strip() for line in text.splitlines()]


@pytest.mark.parametrize(
    "counts, lines, advice",
    [
        ({"ok": 8}, [], False),
        (
            {"ok": 5, "mismatch": 1, "exception": 2},
            ["toy: outputs of 6 of 8 runs were compared, 0 not supported, 2 gave none"],
            False,
        ),
        (
            {"unsupported": 4},
            ["toy: outputs of 0 of 4 runs were compared, 4 not supported, 0 gave none"],
            True,
        ),
    ],
)
def test_runs_without_outputs_to_compare_are_counted(counts, lines, advice):
    shown = shown_of(outcomes_by_backend={"toy": counts})
    assert [line for line in shown if "were compared" in line] == lines
    assert any("nnfuzz ops --backend toy" in line for line in shown) == advice


def test_models_that_must_be_refused_are_not_compared():
    shown = shown_of(outcomes_by_backend={"toy": {"unsupported": 4}}, refusals={})
    assert not any("compared" in line for line in shown)


def test_a_campaign_that_compared_nothing_does_not_say_that_nothing_is_wrong():
    refused, nothing = {"unsupported": 4}, "nothing was compared, so nothing could be found"
    assert nothing in shown_of(tests=1, outcomes_by_backend={"toy": {**refused, "ok": 0}})
    both = shown_of(tests=1, outcomes_by_backend={"toy": refused, "two": {"ok": 1}})
    assert "nothing found" in both and nothing not in both


def test_the_first_line_says_what_is_tested():
    specs = tuple(map(BackendRegistry.discover().parse, ("onnxruntime", "onnxruntime@1.20.1")))
    case = CaseConfig().written_by({"direct": 18, "torchscript": 17})
    config = CampaignConfig(specs, case, tests_limit=1)
    here = f"onnxruntime {version('onnxruntime')} (O0, O3)"
    written = "models by direct (opset 18) and torchscript (opset 17)"
    assert subject(config) == f"{here} and onnxruntime@1.20.1 (O0, O3), {written}"
    assert "(O1)" in subject(replace(config, levels=("O1",)))


def test_indexes_without_a_test_are_told_with_the_reason():
    """--tests 300 that makes 299."""
    line = "no test case: export 1 (the exporter failed); of 300 indexes, which --tests counts"
    assert line in shown_of(tests=299, not_run={"export": 1})
