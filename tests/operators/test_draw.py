"""Choices that cannot be made are told apart from mistakes in a spec."""

from __future__ import annotations

import random

import pytest

from nnfuzz.operators.draw import Draw, NoOptionError


def test_one_of_the_options_is_chosen():
    draw = Draw(random.Random(1))
    assert {draw.choice("abc") for _ in range(50)} == {*"abc"}


def test_no_option_is_an_error_of_its_own():
    with pytest.raises(NoOptionError):
        Draw(random.Random(1)).choice([])
