"""Corpora are verified, selected from and have known failures."""

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.corpus.layout import find_tests, write_test
from nnfuzz.corpus.results import baseline, excused, to_json
from nnfuzz.corpus.select import Budget, SelectableModel, choose, coverage_table, covered
from nnfuzz.corpus.service import Radii, Tolerance, why_unfit
from nnfuzz.corpus.verify import (
    LevelResult,
    Status,
    _worst,
    output_difference,
    verify_one,
)
from nnfuzz.ir.dtypes import DType
from nnfuzz.testcase.bench import LocalProducer
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.client import ProducerError
from nnfuzz.testcase.identity import Numbered
from nnfuzz.testcase.producer import Producer

from . import by_hand


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
    return [result for test in tests for result in verify_one(test, runner, judge, levels)[0]]


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


@pytest.mark.parametrize("ours", [True, False])
def test_the_data_sets_of_a_model_are_calls_of_one_program(tmp_path, ours):
    names = ("Add", "Relu", "MatMul", "ReduceSum", "Abs")
    config = CaseConfig(nodes=4, exporter="direct", operators=names, calls=1.0)
    made = next(c for c in map(Producer(1, config).produce, range(9)) if "calls" in c.variations)
    folder = write_test(tmp_path, made)
    assert len(find_tests(tmp_path)[0].data_sets()) == 3
    back = find_tests(tmp_path)[0].case()
    assert (back.graph, list(back.inputs)) == (made.graph, list(made.inputs))
    if not ours:
        (folder / "nnfuzz.json").unlink()
    registry = BackendRegistry.discover([Path(__file__).parents[1] / "planted" / "stateful.py"])
    with (
        BackendRunner(registry.parse("stateful,keeps=results_by_shape"), registry) as stateful,
        closing(LocalProducer.of(as_json(config))) as bench,
    ):
        good, bad = results_of(tmp_path, stateful, bench, ["O0", "O1"])
    assert (good.status, bad.status) == (Status.PASSED, Status.FAILED)
    assert ("_at1" if ours else "test_data_set_1") in bad.message


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


# Tolerances admit what the envelope admits, and not much more.


def envelope(ref, radius, dtype=DType.FLOAT32, masked=False):
    ref, radius = np.asarray(ref, np.float64), np.asarray(radius, np.float64)
    return Envelope(dtype, ref, ref - radius, ref + radius, np.full(ref.shape, masked))


NUMBERS = st.floats(-1e6, 1e6, width=32)
PAIRS = st.lists(st.tuples(NUMBERS, st.floats(0, 1e3, width=32)), min_size=1, max_size=20)


@given(PAIRS, st.sampled_from([DType.FLOAT16, DType.FLOAT32, DType.FLOAT64]))
def test_the_ends_of_the_envelope_pass(pairs, dtype):
    ref, radius = map(np.array, zip(*pairs))
    bounds = envelope(ref, radius, dtype)
    fit = Radii.of(bounds, ref).fit()
    for end in bounds.admitted:
        np.testing.assert_allclose(end, ref, fit.rtol, fit.atol)


def test_a_wrong_digit_beyond_the_envelope_fails():
    ref = np.array([1.0, 100.0, 1e4])
    absolute = Radii.of(envelope(ref, [1e-3, 1e-3, 1e-3]), ref).fit()
    relative = Radii.of(envelope(ref, 1e-3 * ref), ref).fit()
    assert absolute.atol + absolute.rtol * 1e4 < 4e-3
    assert relative.atol + relative.rtol < 2e-3


def test_discrete_outputs_have_none_and_bound_those_beside_them():
    exact = Radii.of(envelope([7, 2000], [0, 0], DType.INT32), np.array([7, 2000]))
    assert exact.fit() == Tolerance()
    floats = Radii.of(envelope([1000.0], [1.0]), np.array([1000.0]))
    fit = Radii.merged([exact, floats]).fit()
    assert fit.atol + fit.rtol * 1000 >= 1.0


def test_bfloat16_and_the_least_float64_have_tolerances():
    import ml_dtypes

    ref = np.array([1.5], ml_dtypes.bfloat16)
    fit = Radii.of(envelope([1.5], [0.0], DType.BFLOAT16), ref).fit()
    assert fit.atol + 1.5 * fit.rtol > 2**-7
    tiny = np.array([5e-324])
    assert Radii.of(envelope(tiny, tiny, DType.FLOAT64), tiny).fit().atol > 0


@pytest.mark.parametrize(
    "bounds, why",
    [
        (envelope([1.0, 2.0], [0.1, 0.1]), ""),
        (envelope([1.0], [0.1], masked=True), "undecided"),
        (envelope([1.0, -3.0], [2.0, 3.0]), "blunt"),
        (envelope([1.0, 9.0], [2.0, 3.0]), ""),
        (envelope([0.0], [0.0]), ""),
        (envelope([1], [1], DType.INT8), "undecided"),
    ],
)
def test_outputs_that_tell_nothing_are_named(bounds, why):
    assert why_unfit({"y": bounds}) == why


def test_infinities_that_are_decided_need_no_tolerance():
    ref = np.array([np.inf, 1.0, np.nan])
    bounds = envelope(ref, [0, 0.25, 0])
    fit = Radii.of(bounds, ref).fit()
    assert not why_unfit({"y": bounds}) and np.isfinite([fit.atol, fit.rtol]).all()
    np.testing.assert_allclose([np.inf, 1.25, np.nan], ref, fit.rtol, fit.atol)


# Baselines and summaries: what counts, what does not, and what can go.


FAILED = LevelResult("test_a1", "tvm", "O3", Status.FAILED, "y[0] is 1", kind="mismatch")
PASSED = LevelResult("test_a2", "tvm", "O3", Status.PASSED)
SKIPPED = LevelResult("test_b", "tvm", "O3", Status.SKIPPED, "unsupported: Pad|x")


def test_a_baseline_excuses_the_same_failure_only(tmp_path):
    file = tmp_path / "results.json"
    file.write_text(json.dumps(to_json([FAILED, PASSED], {"backend": "tvm"})))
    earlier = baseline(file)
    found = excused(earlier, FAILED)
    assert found.status is Status.KNOWN and found.message.endswith("as well: y[0] is 1")
    crash = LevelResult("test_a1", "tvm", "O3", Status.FAILED, "crash", kind="crash")
    elsewhere = LevelResult("test_a1", "tvm", "O0", Status.FAILED, "", kind="mismatch")
    for other in (crash, elsewhere, PASSED, SKIPPED):
        assert excused(earlier, other) == other


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"schema": 1, "results": [{"test": 3}]}'])
def test_a_baseline_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(Unreadable, match=r"results\.json"):
        baseline(tmp_path / "results.json")


# The selection: budgets are kept, the rare comes first, the result does not depend on order.


def candidate(name, *features, size=1):
    return SelectableModel(name, frozenset(("operator", f) for f in features), size)


def names(found):
    return [c.name for c in found]


def test_the_one_that_adds_most_comes_first_and_what_adds_nothing_never():
    tests = [
        candidate("a", "x"),
        candidate("b", "x", "y"),
        candidate("c", "z"),
        candidate("d", "y"),
    ]
    assert names(choose(tests, Budget())) == ["b", "c"]
    assert names(choose(tests, Budget(count=1))) == ["b"]


def test_a_small_one_is_worth_more_where_bytes_are_scarce():
    tests = [candidate("big", "x", "y", "z", size=90), candidate("x", "x", size=10)]
    tests += [candidate("y", "y", size=10), candidate("z", "z", size=10)]
    assert names(choose(tests, Budget(size=40))) == ["x", "y", "z"]
    assert names(choose(tests, Budget())) == ["big"]


def test_kinds_weigh_the_same():
    """One operator of two is worth more than two of a hundred vertices."""
    rare = SelectableModel("rare", frozenset({("operator", "a")}))
    many = SelectableModel("many", frozenset(("vertex", str(i)) for i in range(2)))
    rest = SelectableModel(
        "rest", frozenset({("operator", "b"), *(("vertex", str(i)) for i in range(98))})
    )
    assert names(choose([many, rare, rest], Budget(count=2)))[0] == "rest"
    assert names(choose([many, rare, rest], Budget(count=2)))[1] == "rare"


FEATURES = st.frozensets(st.sampled_from("abcdefgh"))
TESTS = st.lists(st.tuples(FEATURES, st.integers(1, 20)), min_size=1, max_size=12)


@given(TESTS, st.integers(1, 12), st.integers(1, 60))
def test_budgets_are_kept_and_nothing_that_fits_is_left(tests, count, size):
    pool = [candidate(f"t{i:02}", *f, size=s) for i, (f, s) in enumerate(tests)]
    budget = Budget(count=count, size=size)
    chosen = choose(pool, budget)
    assert len(chosen) <= count and sum(c.size for c in chosen) <= size
    seen: set = set()
    for c in chosen:
        assert c.features - seen
        seen |= c.features
    left = size - sum(c.size for c in chosen)
    if len(chosen) < count:  # nothing that fits would add anything
        assert all(c.features <= seen or c.size > left or c in chosen for c in pool)


def test_what_a_graph_covers():
    found = covered(by_hand.GRAPH)
    assert {("operator", "Add"), ("edge", "Add->Mul"), ("rank", "Add of rank 1")} < found
    assert ("dtype", "Mul(float32,float32)") in found
    assert sum(kind == "vertex" for kind, _ in found) == 2


def test_a_table_counts_kept_and_all_features():
    kept, other = {("operator", "Add"), ("edge", "Add->Mul")}, {("operator", "Mul")}
    assert coverage_table([kept], [kept, other]) == {"operator": [1, 2], "edge": [1, 1]}
