"""Versions of operators."""

from __future__ import annotations

import pytest

from nnfuzz.check.versions import admitted_by_schema, illegal, newest_of_version, version_of
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.operators.registry import OpRegistry

OPSETS = tuple(range(13, 27))
ALL = tuple(range(7, 27))


@pytest.fixture(scope="module")
def registry():
    return OpRegistry.load()


@pytest.mark.parametrize(
    "name, opset, newest",
    [("Acos", 13, 21), ("Acos", 22, 26), ("MatMul", 13, 26), ("ReduceSumSquare", 17, 17)],
)
def test_the_newest_opset_of_a_version(registry, name, opset, newest):
    assert newest_of_version(registry.get(name), opset, OPSETS) == newest


def test_a_lowering_of_several_operators_changes_with_each_of_them(registry):
    spec = registry.get("Mish")  # one operator from opset 18 on, three before
    assert version_of(spec, 17) != version_of(spec, 18)
    assert newest_of_version(spec, 18, OPSETS) == 21


def test_dtypes_that_are_written_in_another_way_count(registry):
    spec = registry.get("IsInf")  # of bfloat16 behind a Cast, which takes it from opset 13 on
    assert version_of(spec, 12) != version_of(spec, 13)


def test_every_operator_has_a_version_at_each_opset_from_its_first(registry):
    for spec in registry.specs():
        assert all(any(version_of(spec, opset)) for opset in OPSETS if opset >= spec.since)


@pytest.mark.slow
def test_what_is_legal_is_so_at_every_opset_of_a_version(registry):
    for spec in registry.specs():
        for opset in ALL:
            if opset >= spec.since:
                newest = newest_of_version(spec, opset, ALL)
                assert illegal([spec], opset) == illegal([spec], newest), (spec.name, opset)


@pytest.mark.parametrize(
    "signature, opset",
    [("Relu(int16)->int16", 11), ("Pad(bool)->bool", 12)],
)
def test_what_the_operators_of_older_forms_do_not_take_is_refused(registry, signature, opset):
    """Relu of integers is Max before opset 14, and only the wrapping Pad is none before 19."""
    spec = registry.get(signature.partition("(")[0])
    config = admitted_by_schema(GenerateConfig(opset=opset), [spec])
    assert signature in config.refused
