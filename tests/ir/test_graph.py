from __future__ import annotations

import pytest

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, GraphError, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()


def graph() -> Graph:
    vector = TensorType(DType.FLOAT32, (3,))
    return Graph(
        {n: Value(n, vector) for n in ("x", "y", "z")},
        [
            Node(REGISTRY.get("Neg")(), ("x",), ("y",)),
            Node(REGISTRY.get("Add")(), ("x", "y"), ("z",)),
        ],
        inputs=["x"],
        outputs=["z"],
    )


def test_a_sound_graph_verifies_and_survives_json():
    original = graph()
    original.verify()
    copy = Graph.from_json(original.to_json(), REGISTRY.get)
    copy.verify()
    assert copy.to_json() == original.to_json()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda g: g.nodes.reverse(), "before it is defined"),
        (lambda g: g.outputs.append("q"), "not computed"),
        (lambda g: g.inputs.append("x"), "listed twice"),
        (
            lambda g: g.values.update(z=Value("z", TensorType(DType.FLOAT32, (4,)))),
            "is declared",
        ),
        (lambda g: g.nodes.append(g.nodes[0]), "defined twice"),
        (
            lambda g: g.values.update(w=Value("w", TensorType(DType.BOOL, ()))),
            "without a definition",
        ),
    ],
)
def test_damage_is_named(damage, message):
    broken = graph()
    damage(broken)
    with pytest.raises(GraphError, match=message):
        broken.verify()


def test_an_unknown_schema_is_refused():
    with pytest.raises(GraphError, match="schema 99"):
        Graph.from_json({**graph().to_json(), "schema": 99}, REGISTRY.get)


def test_consumers_and_producers():
    g = graph()
    assert g.producer()["z"] is g.nodes[1]
    assert g.consumers()["x"] == g.nodes
    assert g.consumers()["z"] == []
