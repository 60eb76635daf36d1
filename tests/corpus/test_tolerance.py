"""Tolerances admit what the envelope admits, and not much more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.compare.envelope import Envelope
from nnfuzz.corpus.tolerance import Radii, Tolerance, why_unfit
from nnfuzz.ir.dtypes import DType


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
