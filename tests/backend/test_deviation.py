"""Habits of compilers."""

import ml_dtypes
import numpy as np
import pytest

from nnfuzz.backend.deviation import Deviation
from nnfuzz.triage.survey import survey
from tests.triage.test_survey import compiler, through


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("float64", "float32"),
        ("float32", "float16"),
        ("float32", "bfloat16"),
        ("float16", "bfloat16"),
        ("int64", "int32"),
        ("int64", "float32"),
        ("int64", "float64"),
        ("uint64", "uint32"),
    ],
)
def test_a_narrower_type_is_told_by_what_it_loses(old, new):
    kind = ml_dtypes.bfloat16 if new == "bfloat16" else np.dtype(new)
    assert survey(compiler(through(old, kind))) == (Deviation(old, new),)
