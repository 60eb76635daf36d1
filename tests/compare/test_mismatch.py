"""Kinds of mismatches."""

from __future__ import annotations

import json

import numpy as np

from nnfuzz.backend.target import Target
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.mismatch import MismatchKind, Verdict
from nnfuzz.compare.verdict import judge
from tests.compare.test_verdict import changed, kind

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
