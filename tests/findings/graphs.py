"""Graphs for drawings and pages."""

from nnfuzz.ir.view import GraphView, NodeView, ValueView

HOSTILE = "</script><img src=x onerror=alert(1)>&\"'\x1b[31m\u202e"


def branching():
    """x -> Split -> (a, b); a -> Conv with w -> c; Add(c, b) -> d; output d and a far-off x."""
    return GraphView.from_json(
        {
            "schema": 1,
            "values": [
                ["x", "float32", [1, 4, 8]],
                ["w", "float32", [2, 2, 1]],
                ["a", "float32", [1, 2, 8]],
                ["b", "float32", [1, 2, 8]],
                ["c", "float32", [1, 2, 8]],
                ["d", "float32", [1, 2, 8]],
                ["e", "bool", [1, 2, 8]],
            ],
            "nodes": [
                {"op": "Split", "attributes": {"axis": 1}, "inputs": ["x"], "outputs": ["a", "b"]},
                {
                    "op": "Conv",
                    "attributes": {
                        "kernel_shape": [1],
                        "pads": [0, 0],
                        "group": 1,
                        "a": 1,
                        "b": 2.5,
                    },
                    "inputs": ["a", "w"],
                    "outputs": ["c"],
                },
                {"op": "Add", "attributes": {}, "inputs": ["c", "b"], "outputs": ["d"]},
                {"op": "Less", "attributes": {}, "inputs": ["d", "d"], "outputs": ["e"]},
            ],
            "inputs": ["x"],
            "weights": ["w"],
            "outputs": ["e", "b"],
        }
    )


def hostile():
    """Every text of it tries to break out."""
    names = HOSTILE, f"y{HOSTILE}"
    values = ValueView(HOSTILE, "float32", (1,)), ValueView(names[1], "float32")
    node = NodeView(HOSTILE, names[:1], names[1:], {HOSTILE: HOSTILE})
    return GraphView(values, (node,), names[:1], (), names[1:])
