"""A graph that can be read without PyTorch."""

from nnfuzz.ir.features import features
from nnfuzz.ir.view import GraphView, NodeView, ValueView


def test_a_vertex_is_operator_attributes_and_input_types():
    def vertex(attributes, shape):
        node = NodeView("Softmax", ("a",), ("b",), attributes)
        values = ValueView("a", "float32", tuple(shape)), ValueView("b", "float32", tuple(shape))
        return features(GraphView(values, (node,))).nodes[0].vertex

    assert vertex({"axis": 1}, [2, 3]) == vertex({"axis": 1}, [2, 3])
    assert len({vertex({"axis": 1}, [2, 3]), vertex({"axis": 0}, [2, 3]), vertex({}, [3, 2])}) == 3


def test_what_a_node_tells():
    node = NodeView("Concat", ("a", "b"), ("c",), {"axis": -1, "mode": "x", "pads": [0, 3]})
    a = ValueView("a", "float32", (2, 3))
    b = ValueView("b", "float32", ("N", "?"))
    c = ValueView("c", "float32", ())
    behind = NodeView("Abs", ("c",), ("d",))
    found = features(GraphView((a, b, c, ValueView("d", "float32")), (node, behind)))
    first, second = found.nodes
    assert (first.shapes, first.degree, first.rank) == ("2x3,Nx?", 2, 2)
    assert first.attributes == ("axis=negative", 'mode="x"', "pads=[0 more]")
    assert (second.shapes, second.degree, second.rank) == ("", 1, 0)
    assert found.operator_ranks() == {("Concat", 2), ("Abs", 0)}
    assert "Concat(float32,float32) axis=negative" in found.attribute_values()
