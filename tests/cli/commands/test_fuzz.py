"""What nnfuzz fuzz prints at its end, and its exit code."""

from __future__ import annotations

import pytest

from nnfuzz.cli.commands.fuzz import exit_code, nothing_ran
from nnfuzz.cli.errors import FAULT, FINDINGS, OK, USAGE
from nnfuzz.records.rows import HangRow
from nnfuzz.store.summary import Summary
from nnfuzz.testcase.identity import Numbered
from tests.command import nnfuzz

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
