"""Distances from the reference at the element that a party gets wrong."""

from __future__ import annotations

import numpy as np

from nnfuzz.backend.target import Target
from nnfuzz.compare.accuracy import accuracy
from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.flip import PYTORCH
from nnfuzz.compare.mismatch import Accuracy, Distance
from nnfuzz.compare.verdict import verdict
from nnfuzz.ir.dtypes import DType

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
