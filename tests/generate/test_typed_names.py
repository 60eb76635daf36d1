"""Names by dtype and rank."""

import random
from collections import Counter

from nnfuzz.generate.typed_names import TypedNames
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.draw import Draw

VECTOR, MATRIX, INDEX = (DType.FLOAT32, 1), (DType.FLOAT32, 2), (DType.INT64, 1)


def filled():
    names = TypedNames()
    for name, kind in (("a", VECTOR), ("b", MATRIX), ("c", VECTOR), ("d", INDEX)):
        names.add(name, kind)
    return names


def test_a_discarded_name_is_gone_and_the_last_takes_its_place():
    names = filled()
    names.discard("a")
    names.discard("never added")
    assert "a" not in names and names.of(VECTOR) == ["c"] and len(names) == 3
    names.discard("c")
    assert names.kinds(1, 1) == [INDEX]


def test_kinds_are_those_of_the_ranks_that_have_names():
    assert filled().kinds(1, 1) == [VECTOR, INDEX]
    assert filled().read([DType.FLOAT32, DType.BOOL], 2, 4) == {DType.FLOAT32: [MATRIX]}


def test_every_name_is_picked_about_as_often():
    names, draw = filled(), Draw(random.Random(1))
    picked = Counter(names.pick(draw, [VECTOR, MATRIX]) for _ in range(300))
    assert picked.keys() == {"a", "b", "c"} and min(picked.values()) > 60
    assert names.pick(draw, [(DType.BOOL, 0)]) is None
