"""Progress in lines, Ctrl-C, the end of a campaign, and what a CI reads."""

from __future__ import annotations

import io
import os
import signal
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.campaign.session import CampaignResult
from nnfuzz.cli.progress import Interrupt, Lines, line, subject
from nnfuzz.cli.reports import LONGEST, summary_text
from nnfuzz.cli.reports import test_names as names
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import CampaignSnapshot
from nnfuzz.records.rows import FindingRow
from nnfuzz.store.summary import Summary
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.identity import Numbered


def test_progress_in_plain_lines():
    stream = io.StringIO()
    lines = Lines(stream, every=3600)
    state = CampaignSnapshot("fuzzing", 75.0, 30.0, 8, 2.5, {"ok": 15, "crash": 1}, 1, 2, 0, 0.5)
    lines.update(state)
    assert stream.getvalue() == ""
    lines.note("something")
    Lines(stream, every=0).update(state)
    assert stream.getvalue().splitlines() == [
        "note: something",
        "[1m15s, 30s left] fuzzing: 8 tests, 2.5/s, ok 15 crash 1, 1 finding (2 times), "
        "50% of the time in compilers",
    ]


def test_the_reduction_phase_tells_its_own_time_left():
    state = CampaignSnapshot("reducing", 75.0, 22.0, 8, 2.5, {"ok": 15}, 4, 9, 0, 0.5)
    state = replace(state, unreduced=3)
    assert line(state).startswith("[1m15s, 22s left] reducing: 8 tests, ")
    assert "4 findings (9 times, 3 to be reduced)" in line(state)


def test_the_first_signal_is_remembered_and_handlers_come_back(capsys):
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        assert not interrupt.asked()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.asked()
    assert signal.getsignal(signal.SIGINT) is before
    assert "press Ctrl-C again to kill" in capsys.readouterr().err


def test_several_hangups_of_a_terminal_do_not_kill():
    with Interrupt() as interrupt:
        assert not interrupt.asked()
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGHUP)
        assert interrupt.asked()


def shown_of(folder="c", **figures):
    """The lines on a campaign without findings."""
    config = CampaignConfig(tuple(map(BackendRegistry.discover().parse, ("onnxruntime",))))
    text = summary_text(CampaignResult(Path(folder), Summary(**figures), [], {}), config)
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


@pytest.mark.parametrize(
    ("folder", "shown"), [("-x", "./-x/summary.json"), ("a b", "'a b/summary.json'")]
)
def test_paths_are_as_a_shell_takes_them(folder, shown):
    assert f"summary: {shown}" in shown_of(folder)


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


TITLE = "tvm: Resize, mode=cubic, exclude_outside=1: ignores exclude_outside"
ROW = FindingRow(
    signature="aaaaaaaaaaaa",
    test=Numbered(1, 2),
    kind="mismatch",
    stage="compare",
    backend="tvm",
    level="O3",
    title=f"{TITLE} (all levels)",
    folder="findings/x",
)
NAME = "tvm-resize-mode-cubic-exclude-outside-1-ignores-exclude-outside"


def test_a_name_is_compiler_and_title_without_seed_hash_and_levels():
    later = replace(ROW, test=Numbered(9, 9), signature="bbbbbbbbbbbb", title=f"{TITLE} (O3 only)")
    assert names([ROW]) == names([later]) == [NAME]
    assert names([replace(ROW, backend="ort")])[0].startswith("ort-")


def test_only_those_that_collide_have_a_hash():
    same = replace(ROW, signature="bbbbbbbbbbbb", cause="cccccccccccc")
    other = replace(ROW, title="tvm: Relu: wrong values")
    assert names([ROW, same, other]) == [
        f"{NAME}-aaaaaaaaaaaa",
        f"{NAME}-cccccccccccc",
        "tvm-relu-wrong-values",
    ]


def test_a_long_title_ends_with_a_whole_word():
    (name,) = names([replace(ROW, title="tvm: " + "word " * 50)])
    assert len(name) <= LONGEST and name.endswith("-word")
