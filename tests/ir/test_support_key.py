"""The keys of operator signatures and edges, and how they are written."""

import pytest

from nnfuzz.base.reading import read
from nnfuzz.ir.support_key import SupportKey, operators_in

TEXTS = ["direct:Where(bool,int8)->int8", "Add(int8)->int8", "dynamo:Relu->Conv(float32)", "Exp"]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_written_is_read(text):
    assert str(SupportKey.parse(text)) == text
    assert read(SupportKey, text) == SupportKey.parse(text)


def test_the_parts_of_a_key():
    key = SupportKey.parse(TEXTS[0])
    assert key == SupportKey("direct", "Where", "(bool,int8)->int8")
    assert key.signature == SupportKey.of_signature("Where", ["bool", "int8"], "int8")
    assert str(key.any_dtypes) == "direct:Where" and str(key.signature.any_dtypes) == "Where"
    assert key.with_exporter("dynamo").exporter == "dynamo" and key.with_exporter("direct") is key


def test_edges_are_no_operator_signatures():
    assert [SupportKey.parse(text).is_edge for text in TEXTS] == [False, False, True, False]
    assert SupportKey.parse("Relu->Conv").is_edge


def test_keys_sort_as_they_are_written():
    keys = [*TEXTS, "Add(int8,int8)->int8", "AddMore(int8)->int8", "a:Add(int8)->int8"]
    assert list(map(str, sorted(map(SupportKey.parse, keys)))) == sorted(keys)


def test_operators_are_named_once():
    assert operators_in([*TEXTS[:2], "Add(bool)->bool"]) == {"Where", "Add"}
