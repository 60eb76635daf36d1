"""A graph and a vocabulary of which every measure is known by hand."""

from nnfuzz.ir.features import Features, features
from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.metrics.vocabulary import OperatorVocabulary

VOCABULARY = OperatorVocabulary({"Add": 1, "Relu": 1, "Concat": 5, "Abs": 1})


def graph(size: int) -> Features:
    """Concat(x, x) -> Relu -> Add(_, _), and a Relu of it that nothing reads."""
    values = [ValueView(name, "float32", (size,)) for name in "xcrab"]
    nodes = (
        NodeView("Concat", ("x", "x"), ("c",), {"axis": 0}),
        NodeView("Relu", ("c",), ("r",)),
        NodeView("Add", ("r", "r"), ("a",)),
        NodeView("Relu", ("a",), ("b",)),
    )
    return features(GraphView(tuple(values), nodes, ("x",), (), ("b",)))
