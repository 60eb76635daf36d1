from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.ir.features import Features, features
from nnfuzz.ir.view import GraphView

GRAPH = GraphView.from_json(
    {
        "values": [
            ["x", "float32", [2, 3]],
            ["w", "float32", [3]],
            ["h", "float32", [2, 3]],
            ["y", "float32", [2, 3]],
            ["z", "bool", [2, 3]],
        ],
        "nodes": [
            {"op": "Add", "attributes": {}, "inputs": ["x", "w"], "outputs": ["h"]},
            {"op": "Mul", "attributes": {}, "inputs": ["h", "h"], "outputs": ["y"]},
            {"op": "Less", "attributes": {}, "inputs": ["h", "y"], "outputs": ["z"]},
        ],
    }
)


def test_what_a_graph_consists_of():
    found = features(GRAPH)
    assert found.operators() == {"Add", "Mul", "Less"}
    assert ("Less", "float32,float32") in found.operator_dtypes()
    assert found.edges == ((0, 1), (0, 2), (1, 2))
    assert found.operator_edges() == {("Add", "Mul"), ("Add", "Less"), ("Mul", "Less")}
    assert len(found.vertices()) == 3
    assert read(Features, as_json(found)) == found


def test_triples_are_chains_of_three():
    graph = features(GRAPH)
    assert graph.operator_triples() == {("Add", "Mul", "Less")}
