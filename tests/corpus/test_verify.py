"""Verification: ours by the judge, others by tolerance; JUnit for servers."""

import numpy as np
import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.reading import read
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.corpus.layout import find_tests, write_test
from nnfuzz.corpus.verify import (
    LevelResult,
    Status,
    _worst,
    output_difference,
    verify_one,
)
from nnfuzz.testcase.client import ProducerError
from nnfuzz.testcase.identity import Numbered


@pytest.fixture(scope="module")
def runner():
    registry = BackendRegistry.discover()
    with BackendRunner(registry.parse("onnxruntime"), registry) as runner:
        yield runner


class judge_saying:
    """A bench on which the same is wrong of every output."""

    def __init__(self, *wrong):
        self.wrong = list(wrong)

    def judge(self, case, outcomes, names=(), habits=()):
        return read(Verdict, {"mismatches": {str(o.target): self.wrong for o in outcomes}})

    def reference(self, case):
        raise ProducerError


WRONG = {
    "output": "y",
    "kind": "value",
    "wrong": 2,
    "worst": {"index": [1], "expected": 1.0, "actual": 2.0, "lo": 0.9, "hi": 1.1},
}


def results_of(path, runner, judge, levels=("O0", "O3")):
    tests = find_tests(path)
    return [result for test in tests for result in verify_one(test, runner, judge, levels)]


def test_ours_are_judged(case, runner, tmp_path):
    write_test(tmp_path, case)
    good = results_of(tmp_path, runner, judge_saying())
    assert [(r.level, r.status) for r in good] == [("O0", "passed"), ("O3", "passed")]
    bad = results_of(tmp_path, runner, judge_saying(WRONG), levels=["O1"])
    assert [(r.level, r.status) for r in bad] == [("O1", "failed")]
    assert "y[1] is 2.0, expected 1.0 in [0.9, 1.1]" in bad[0].message


def test_others_by_tolerance(case, runner, tmp_path):
    folder = write_test(tmp_path, case)
    (folder / "nnfuzz.json").unlink()
    assert {r.status for r in results_of(tmp_path, runner, judge_saying(WRONG))} == {"passed"}
    output = folder / "test_data_set_0" / "output_0.pb"
    from nnfuzz.corpus.layout import tensor_bytes

    output.write_bytes(tensor_bytes("y", case.expected["y"] * np.float32(1.01)))
    bad = results_of(tmp_path, runner, None)
    assert {r.status for r in bad} == {Status.FAILED} and "3 of 3 elements" in bad[0].message


def test_a_damaged_test_costs_only_itself(case, runner, tmp_path):
    from dataclasses import replace

    for index in range(3):
        write_test(tmp_path, replace(case, id=Numbered(7, index)))
    tests = sorted(tmp_path.iterdir())
    (tests[0] / "model.onnx").write_bytes(b"\xff")
    from nnfuzz.corpus.layout import tensor_bytes

    data = tests[1] / "test_data_set_0" / "input_0.pb"
    data.write_bytes(tensor_bytes("x", np.zeros(9, np.int8)))
    found = results_of(tmp_path, runner, judge_saying(), levels=["O0"])
    assert [r.status for r in found] == ["error", "error", "passed"]
    assert "inputs do not fit" in found[1].message


@pytest.mark.parametrize(
    "expected, actual, said",
    [
        (np.float32([1, 2]), np.float32([1, 2.0001]), ""),
        (np.float32([1, 2]), np.float32([1, 2.1]), "1 of 2 elements, first [1]"),
        (np.float32([np.nan, np.inf]), np.float32([np.nan, np.inf]), ""),
        (np.float32([np.inf]), np.float32([-np.inf]), "1 of 1"),
        (np.int64([1 << 60]), np.int64([(1 << 60) + 1]), "1 of 1"),
        (np.array([True]), np.array([False]), "1 of 1"),
        (np.float32(1), np.float64(1), "float64[], expected float32[]"),
        (np.zeros((0, 2), np.float16), np.zeros((0, 2), np.float16), ""),
        (np.zeros(2, np.float16), np.zeros(3, np.float16), "float16[3], expected float16[2]"),
        (np.zeros(2), None, "missing"),
    ],
)
def test_difference(expected, actual, said):
    actual = None if actual is None else np.asarray(actual)
    found = output_difference(np.asarray(expected), actual)
    assert found.startswith(said) and bool(found) == bool(said)


def test_a_failure_is_not_hidden_by_a_data_set_that_was_not_compared():
    told = (Status.PASSED, Status.NOT_COMPARED, Status.FAILED)
    parts = [LevelResult("a", "toy", "O0", status, seconds=1.0) for status in told]
    assert (_worst(parts).status, _worst(parts).seconds) == (Status.FAILED, 3.0)
    assert _worst(parts[:2]).status is Status.NOT_COMPARED
