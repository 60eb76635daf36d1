"""Verdicts on outputs, and the criteria behind them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nnfuzz.backend.target import Target
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.accuracy import accuracy
from nnfuzz.compare.contradiction import groups_that_agree, without_contradicted
from nnfuzz.compare.distance import distance, looseness
from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.flip import PYTORCH
from nnfuzz.compare.mismatch import Accuracy, Distance, MismatchKind, Verdict
from nnfuzz.compare.reference import ReferenceFault, reference
from nnfuzz.compare.verdict import judge, verdict
from nnfuzz.ir.dtypes import DType
from tests.compare.test_envelope import F32


def changed(outputs, change):
    return {name: change(array.copy()) for name, array in outputs.items()}


def kind(case, change):
    graph, params, good = case
    (found,) = judge(graph, params, {"p": changed(good, change)}).mismatches["p"]
    return found


def test_rounding_passes_and_a_scale_of_1e_4_does_not(case):
    graph, params, good = case
    scaled = changed(good, lambda y: y * np.float32(1 + 1e-4))
    verdict = judge(graph, params, {"good": good, "scaled": scaled})
    assert verdict.mismatches["good"] == ()
    assert [m.kind for m in verdict.mismatches["scaled"]] == [MismatchKind.VALUE]
    assert not verdict.ok


def test_worst_and_first_element(case):
    def change(y):
        y[0, 1] += 0.01
        y[2, 3] += 1
        return y

    found = kind(case, change)
    assert (found.wrong, found.share) == (2, pytest.approx(2 / 12))
    assert found.first.index == (0, 1)
    assert found.worst.index == (2, 3)
    worst = found.worst
    assert worst.lo <= worst.expected <= worst.hi < worst.actual
    ulp = float(np.spacing(np.float32(worst.expected)))
    assert worst.excess == pytest.approx((worst.actual - worst.hi) / ulp)


def test_discrete_outputs_off_by_one(build):
    b = build(x=np.int32([1, 2]))
    name = b.add("Add", "x", "x")
    graph, params = b.done(name)
    (found,) = judge(graph, params, {"p": {name: np.int32([2, 5])}}).mismatches["p"]
    assert (found.worst.expected, found.worst.actual, found.worst.excess) == (4, 5, 1)
    assert not judge(graph, params, {"p": {name: np.int32([2, 4])}}).mismatches["p"]


def test_elements_without_a_meaning_are_not_compared(build):
    b = build(x=np.float32([1e9, 3.5]))
    from nnfuzz.ir.dtypes import DType

    name = b.add("Cast", "x", to=DType.INT8)
    graph, params = b.done(name)
    verdict = judge(graph, params, {"p": {name: np.int8([77, 3])}})
    assert verdict.ok
    assert verdict.comparable == {name: 0.5}


def test_the_reference_is_suspect_when_all_independent_parties_are_flagged(case):
    graph, params, good = case
    bad = changed(good, lambda y: y + 1)
    groups = [["a/0", "a/1"], ["b/0"]]
    runs = {"a/0": bad, "a/1": bad, "b/0": bad}
    assert judge(graph, params, runs, groups).suspect_reference
    assert not judge(graph, params, {**runs, "b/0": good}, groups).suspect_reference
    assert not judge(graph, params, {"a/0": bad, "a/1": bad}, groups[:1]).suspect_reference
    assert not judge(graph, params, runs).suspect_reference


def test_a_scalar_output(build):
    b = build(x=np.float32(2.0))
    name = b.add("Exp", "x")
    graph, params = b.done(name)
    good, bad = ({name: np.asarray(v, np.float32)} for v in (np.exp(2), 7))
    verdict = judge(graph, params, {"good": good, "bad": bad})
    assert verdict.mismatches["good"] == ()
    assert verdict.mismatches["bad"][0].worst.index == ()


def test_any_distance_from_a_tiny_number_is_a_mismatch_and_no_warning(build):
    """1e308 is more ULP of the least double away from it than a double can count."""
    x = np.array([5e-324], np.float64)
    b = build(x=x)
    graph, params = b.done(b.add("Neg", "x"))
    (name,) = graph.outputs
    verdict = judge(graph, params, {"p": {name: np.array([1e308])}})
    assert verdict.mismatches["p"][0].worst.excess == "inf"


# Kinds of mismatches.


A, B = Target("a"), Target("b")


def test_kinds(case):
    def poisoned(y):
        y[1, 1] = np.nan
        return y

    assert kind(case, poisoned).kind is MismatchKind.NONFINITE
    assert kind(case, poisoned).worst.actual == "nan"
    assert kind(case, lambda y: y.reshape(4, 3)).kind is MismatchKind.SHAPE
    assert kind(case, lambda y: y.astype(np.float64)).kind is MismatchKind.DTYPE
    graph, params, _ = case
    (missing,) = judge(graph, params, {"p": {}}).mismatches["p"]
    assert missing.kind is MismatchKind.MISSING


def test_json_round_trip(case):
    graph, params, good = case
    verdict = judge(graph, params, {A: good, B: changed(good, lambda y: y + np.inf)})
    text = json.dumps(as_json(verdict), allow_nan=False)
    assert read(Verdict, json.loads(text)) == verdict
    assert "inf" in str(verdict.mismatches[B][0])


# Distances, and who agrees with whom.


def around(values, width=0.0, unknown=(), dtype=DType.FLOAT32):
    ref = np.array(values, np.float64)
    mask = np.isin(np.arange(ref.size), unknown)
    return Envelope(dtype, ref, ref - width, ref + width, mask)


def test_the_distance_is_in_units_of_the_largest_element():
    actual = np.float32([1024.0, 1e-20])
    assert distance(around([1024.0, 0.0]), actual)[0] < 1e-10
    ulp, relative = distance(around([1024.0 + 2**-13, 0.0]), actual)
    assert ulp == 1.0 and relative == pytest.approx(2**-23)
    assert distance(around([5000.0, 0.0], unknown=[0]), actual)[0] > 1e20
    assert looseness(around([-40.0, 1.0], 2.0)) == 0 == looseness(around([4], dtype=DType.INT8))
    assert looseness(around([90.0, 4.0, 3.0], 2.0)) == 0
    assert looseness(around([90.0, 4.0, 3.0], [2.0, 2.0, 0.1], unknown=[0])) == 0.5


def test_arrays_agree_within_the_envelope_or_else_in_half_of_the_digits():
    arrays = {
        "a": np.float32([1.0, 8.0]),
        "b": np.float32([1.0001, 8.0]),
        "c": np.float32([1.0, 8.001]),
        "d": np.float32([1.0, 8.01]),
    }
    assert groups_that_agree(arrays, around([1.0, 8.0], unknown=[1])) == [["a", "c"], ["b"], ["d"]]
    assert groups_that_agree(arrays, around([1.0, 8.0], 0.1)) == [["a", "b", "c", "d"]]
    assert groups_that_agree(arrays, around([1.0] * 3)) == [["a", "b", "c"], ["d"]]
    whole = {"a": np.int64([3]), "b": np.int64([3]), "c": np.int64([4]), "d": np.int32([3])}
    assert groups_that_agree(whole, around([3], dtype=DType.INT64)) == [["a", "b"], ["c"], ["d"]]


# Distances from the reference at the element that a party gets wrong.


LOW, HIGH = (Target("a", pipeline=level) for level in ("O0", "O1"))


def envelope(dtype: DType, ref: np.ndarray) -> dict[str, Envelope]:
    return {"y": Envelope(dtype, ref, ref, ref, np.zeros(ref.shape, bool))}


def test_floats_are_held_against_float64():
    exact = np.array([1.0, 2.0 + 2.0**-24])
    rounded = {"y": exact.astype(np.float32)}
    wrong = {"y": np.float32([1.0, 3.0])}
    parties = {PYTORCH: rounded, LOW: rounded, HIGH: wrong}
    found = envelope(DType.FLOAT32, exact)
    told = accuracy(found, parties, verdict(found, parties).mismatches)
    assert set(told) == {HIGH}
    assert told[HIGH]["y"].reference == exact[1]
    ulp = 2.0**-22
    assert told[HIGH]["y"].rows == {
        PYTORCH: Distance(2.0, 2.0**-24, 2.0**-24 / ulp),
        LOW: Distance(2.0, 2.0**-24, 2.0**-24 / ulp),
        HIGH: Distance(3.0, 1 - 2.0**-24, (1 - 2.0**-24) / ulp),
    }


def test_integers_have_no_ulp_and_non_numbers_are_words():
    ints = envelope(DType.INT64, np.array([2**60]))
    parties = {HIGH: {"y": np.array([2**60 + 1])}}
    told = accuracy(ints, parties, verdict(ints, parties).mismatches)
    assert told[HIGH]["y"].rows == {HIGH: Distance(2**60 + 1, 1, None)}
    floats = envelope(DType.FLOAT16, np.array([1.0]))
    parties = {HIGH: {"y": np.array([np.nan], np.float16)}, LOW: {"y": np.zeros(3)}}
    told = accuracy(floats, parties, verdict(floats, parties).mismatches)
    assert told == {HIGH: {"y": Accuracy(1.0, {HIGH: Distance("nan", "nan", "nan")})}}


# Elements at which onnx.reference contradicts a verdict, and those at which it does not.


TARGET, ARBITER = Target("c"), Target("onnx.reference", form="direct")
NAN = float("nan")


def split(dtype, expected, actual, theirs, half=0.0, shape=None, finite=True):
    ref = np.array(expected, dtype)
    envelope = Envelope(DType.of(ref.dtype), ref, ref - half, ref + half, np.zeros(ref.shape, bool))
    outputs = {TARGET: {"y": np.array(actual)}, ARBITER: {"y": np.array(theirs)}}
    for own in outputs.values():
        own["y"] = own["y"].astype(dtype) if shape is None else own["y"].reshape(shape)
    bounds = {"y": envelope}
    found = without_contradicted(
        verdict(bounds, outputs), bounds, outputs, ARBITER, outputs[ARBITER], finite
    )
    assert found.mismatches[ARBITER] == ()
    wrong = sum(m.wrong or 1 for m in found.mismatches[TARGET])
    return wrong, [c.count for c in found.contradictions.get(TARGET, ())]


@pytest.mark.parametrize(
    ("actual", "theirs", "wrong", "contradicted"),
    [
        ([1, 0, 0], [1, 0, 0], 0, [1]),
        ([1, 0, 0], [0, 0, 0], 1, []),
        ([1, 0, 0], [2, 0, 0], 1, []),
        ([1, 5, 3], [1, 5, 0], 1, [2]),
        ([1, 5, 3], [0, 0, 3], 2, [1]),
        ([0, 0, 0], [1, 1, 1], 0, []),
    ],
)
def test_integers_agree_bit_for_bit_and_each_for_itself(actual, theirs, wrong, contradicted):
    assert split("int64", [0, 0, 0], actual, theirs) == (wrong, contradicted)


@pytest.mark.parametrize(
    ("actual", "theirs", "contradicted"),
    [(2.0, 2.05, True), (2.0, 2.2, False), (NAN, 2.0, False), (1.2, 1.05, False)],
)
def test_floats_agree_as_far_as_the_envelope_is_wide(actual, theirs, contradicted):
    """The last reference is within the envelope itself, near though the target is to it."""
    found = split("float32", [1.0], [actual], [theirs], half=0.1)
    assert found == ((0, [1]) if contradicted else (1, []))


@pytest.mark.parametrize("theirs", [NAN, -np.inf])
def test_an_overflow_of_onnx_reference_contradicts_nothing(theirs):
    """But where NaN or an infinity is among the inputs."""
    assert split("float32", [1.0], [theirs], [theirs]) == (1, [])
    assert split("float32", [1.0], [theirs], [theirs], finite=False) == (0, [1])


def test_a_shape_is_contradicted_as_a_whole():
    assert split("float32", [[1.0, 2.0]], [1.0, 2.0], [1.0, 2.0], shape=(2,)) == (0, [0])
    assert split("float32", [[1.0, 2.0]], [1.0, 2.0], [1.0, 3.0], shape=(2,)) == (1, [])


# Faults of a spec while the reference is computed.


def test_reference_faults_name_the_node(build, monkeypatch):
    b = build(x=F32([1.0]))
    graph, params = b.done(b.add("Exp", "x"))
    monkeypatch.setattr(type(graph.nodes[0].op), "torch", lambda self, x: x.reshape(1, 1))
    with pytest.raises(ReferenceFault, match="Exp"):
        reference(graph, params)
