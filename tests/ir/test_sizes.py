from __future__ import annotations

import pytest

from nnfuzz.ir.graph import Graph, GraphError
from nnfuzz.ir.sizes import (
    at_size,
    by_copy,
    copies,
    from_copies,
    join_copies,
    name_and_copy,
    operators,
)
from nnfuzz.ir.types import TensorType
from nnfuzz.ir.view import NO_GRAPH
from tests.inputs.graphs import FLOAT, build, op


def scaled(rows: int) -> Graph:
    types = {"x": FLOAT.with_shape((rows, 4)), "w": FLOAT.with_shape((4,))}
    return build(types, [("v", op("Relu"), "x"), ("y", op("Mul"), ["v", "w"])], weights=["w"])


def plain(graph: Graph) -> dict:
    """The JSON form, whatever the order of the values."""
    data = graph.to_json()
    return {**data, "values": sorted(data["values"])}


def test_copies_share_their_weights_and_nothing_else():
    whole = join_copies([scaled(3), scaled(5), scaled(1)])
    whole.verify()
    assert whole.inputs == ["x", "x_at1", "x_at2"]
    assert whole.weights == ["w"]
    assert whole.outputs == ["y", "y_at1", "y_at2"]
    assert [whole.type(name).shape[0] for name in whole.outputs] == [3, 5, 1]


def test_joined_copies_come_apart_again():
    parts = [scaled(3), scaled(5)]
    assert [plain(g) for g in copies(join_copies(parts))] == [plain(g) for g in parts]
    assert [plain(g) for g in copies(scaled(2))] == [plain(scaled(2))]


def test_prescribed_weights_stay_prescribed():
    graph = scaled(3)
    graph.prescribed["w"] = (1.0, 2.0)
    whole = join_copies([graph, scaled(5)])
    assert whole.prescribed == {"w": (1.0, 2.0)}
    assert copies(whole)[0].prescribed == {"w": (1.0, 2.0)}


def test_weights_of_another_size_are_refused():
    other = scaled(3)
    wide = TensorType(FLOAT.dtype, (1,))
    other.values["w"] = type(other.values["w"])("w", wide)
    with pytest.raises(GraphError, match="the weight w is"):
        join_copies([scaled(3), other])


def test_names_and_arrays_by_copy():
    assert name_and_copy(at_size("v3", 2)) == ("v3", 2)
    assert name_and_copy("v3") == ("v3", 0)
    parts = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert by_copy(from_copies(parts)) == parts
    assert by_copy({"a": 1}) == [{"a": 1}]


def test_operators_are_counted_once():
    assert operators(join_copies([scaled(3), scaled(5)]).view()) == 2
    assert operators(scaled(3).view()) == 2
    assert operators(NO_GRAPH) == 0
