"""Large tensors, and what bounds them."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from nnfuzz.generate.large import BEYOND, LARGE, SHARES, large_share, large_tensor
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.draw import Draw
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.producer import Producer


def near_a_power(size: int) -> bool:
    return any((size + off).bit_count() == 1 for off in (-1, 0, 1))


def elements(case) -> list[int]:
    return [math.prod(value.shape) for value in case.graph.values]


@pytest.fixture(scope="module")
def mixed() -> list:
    """Forty test cases as campaigns make them."""
    producer = Producer(3, CaseConfig(exporter="direct", large=SHARES["mixed"]))
    return [producer.produce(index) for index in range(40)]


def test_every_rank_has_large_tensors_beside_powers_of_two():
    draw, offsets = Draw(random.Random(0), LARGE), Counter()
    for rank in range(1, 7):
        for _ in range(20):
            type_ = large_tensor(draw, DType.FLOAT32, rank)
            assert BEYOND < type_.numel <= LARGE.max_numel
            assert all(near_a_power(d) and d <= LARGE.dim(rank) for d in type_.shape)
            offsets.update(d - (1 << (d.bit_length() - 1)) for d in type_.shape if d > 9)
    assert offsets[0] and offsets[1] and len(offsets) > 3
    assert large_tensor(draw, DType.FLOAT32, 0) is None


def test_few_graphs_have_large_tensors_and_those_stay_within_the_budget(mixed):
    large = [case for case in mixed if max(elements(case)) > BEYOND]
    assert 1 <= len(large) <= 12
    assert all(sum(elements(case)) <= LARGE.max_total for case in large)
    assert all(max(elements(case)) <= LARGE.max_numel for case in large)


def test_the_share_changes_no_other_graph(mixed):
    usual = Producer(3, CaseConfig(exporter="direct"))
    same = [usual.produce(i).digest() == case.digest() for i, case in enumerate(mixed)]
    assert same == [max(elements(case)) <= BEYOND for case in mixed]


@pytest.mark.parametrize("engine", ["direct", "concolic", "symbolic"])
def test_nearly_all_graphs_are_large_if_all_shall_be(engine):
    """A few have no operator that takes such a tensor."""
    producer = Producer(1, CaseConfig(exporter="direct", engine=engine, large=1.0))
    made = [producer.produce(index) for index in range(6)]
    assert sum(max(elements(case)) > BEYOND for case in made) >= 5
    assert all(sum(elements(case)) <= LARGE.max_total for case in made)


def test_the_setting_is_one_of_three_words():
    assert [large_share(word) for word in SHARES] == [0.0, 0.1, 1.0]
    with pytest.raises(ValueError, match="small, mixed or large"):
        large_share("huge")
