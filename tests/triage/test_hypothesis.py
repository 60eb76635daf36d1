"""A hypothesis has a key that never changes and a sentence that may."""

from __future__ import annotations

import pytest

from nnfuzz.backend.numeric import CONSIDERED
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.triage.keys import Claim, Hypothesis

KEYS = {
    "Softmax ignores axis": Hypothesis(Claim.IGNORES, "Softmax", "axis"),
    "ignores axis=-1": Hypothesis(Claim.IGNORES, detail="axis=-1"),
    "Mean ignores input 2": Hypothesis(Claim.IGNORES, "Mean", "input 2"),
    "IsNaN returns int8 for bool": Hypothesis(Claim.RETURNS, "IsNaN", "int8 for bool"),
    "Sign is one too large": Hypothesis(Claim.OFF, "Sign", "one too large"),
    "Sign has the opposite sign": Hypothesis(Claim.SIGN, "Sign"),
    "Exp adds axes of size 1": Hypothesis(Claim.AXES, "Exp", "adds"),
    "Variadic of more than two operands": Hypothesis(Claim.MANY_OPERANDS, "Variadic"),
    "is right without constants": Hypothesis(Claim.ALL_CONSTANTS),
    "Conv is right without strides or pads": Hypothesis(Claim.WITHOUT, "Conv", "strides or pads"),
    "follows from tvm: Add cannot take what is computed": Hypothesis(
        Claim.FOLLOWS, detail="tvm: Add cannot take what is computed"
    ),
    "something of another version": Hypothesis(Claim.OTHER, detail="something of another version"),
}


@pytest.mark.parametrize("key", KEYS)
def test_keys_are_those_that_folders_hold(key):
    assert Hypothesis.parse(key) == KEYS[key] and str(KEYS[key]) == key
    assert read(tuple[Hypothesis, ...], as_json((KEYS[key],))) == (KEYS[key],)


def test_a_habit_explains_a_result():
    for habit in CONSIDERED:
        claimed = Hypothesis.of_habit(habit)
        assert str(claimed) == str(habit) and Hypothesis.parse(str(habit)) == claimed
