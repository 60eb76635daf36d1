"""The oracle, asked by who runs a compiler himself."""

from __future__ import annotations

import numpy as np

import nnfuzz


def test_the_reference_agrees_with_itself(cases):
    verdict = nnfuzz.Oracle()(cases[0], cases[0].expected)
    assert verdict.ok and str(verdict) == "yours: agrees"


def test_a_wrong_element_is_named(cases):
    name, array = next(iter(cases[0].expected.items()))
    wrong = {**cases[0].expected, name: array + np.float32(1000)}
    verdict = nnfuzz.Oracle()(cases[0], wrong, "mine/O3")
    assert not verdict.ok
    assert str(verdict).startswith(f"mine/cpu/O3: {name}[") and "expected" in str(verdict)
    assert "<table>" in verdict._repr_html_() and name in verdict._repr_html_()


def test_a_missing_output_is_told(cases):
    assert "missing" in str(nnfuzz.Oracle()(cases[0], {}))


def test_the_envelope_encloses_the_reference(cases):
    case = cases[0]
    for name, envelope in nnfuzz.Oracle().envelope(case).items():
        lo, hi = envelope.admitted
        assert envelope.lo.shape == case.expected[name].shape == envelope.any.shape
        assert ((lo <= case.expected[name]) & (case.expected[name] <= hi) | envelope.any).all()
