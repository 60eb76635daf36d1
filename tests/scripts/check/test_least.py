"""Every set of operators is left out, in every way."""

from nnfuzz.reduction.edit import Edit
from scripts.check.least import combinations


def test_every_choice_of_one_edit_per_operator_comes_once():
    first, second, other = (
        Edit("bypasses", "a", "x"),
        Edit("replacements", "a"),
        Edit("bypasses", "b"),
    )
    groups = list(combinations([first, second, other]))
    assert groups[:2] == [(first, other), (second, other)]
    assert set(groups[2:]) == {(first,), (second,), (other,)}
