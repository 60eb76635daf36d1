"""Plain operators in place of what reads a value, or of what makes it."""

import numpy as np
import pytest

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.reduction.neighbours import made_plainly, read_by
from nnfuzz.reduction.subject import Inapplicable, Subject

REGISTRY = OpRegistry.load()
X = np.array([1, 2, 65535], np.uint16)


@pytest.fixture
def pair():
    """Sign of BitwiseNot."""
    type_ = TensorType(DType.UINT16, (3,))
    flip, sign = (REGISTRY.get(name)() for name in ("BitwiseNot", "Sign"))
    nodes = [Node(flip, ("x",), ("h",)), Node(sign, ("h",), ("y",))]
    values = {name: Value(name, type_) for name in "xhy"}
    return Subject(Graph(values, nodes, ["x"], [], ["y"]), {"x": X})


def test_a_value_is_compared_with_the_right_one(pair):
    made = read_by(pair, "h", "Equal", REGISTRY).checked()
    assert [node.op.name for node in made.graph.nodes] == ["BitwiseNot", "Equal"]
    assert made.values["h_read"].tolist() == [True, True, True]


def test_a_value_is_read_in_a_wider_dtype(pair):
    made = read_by(pair, "h", "Cast", REGISTRY).checked()
    assert made.values["h_read"].dtype == np.int64
    assert made.values["h_read"].tolist() == [65534, 65533, 0]


def test_a_reader_is_fed_with_what_is_chosen(pair):
    made = made_plainly(pair, "y", REGISTRY).checked()
    assert [node.op.name for node in made.graph.nodes] == ["Where", "Sign"]
    assert made.values["h"].tolist() == pair.values["h"].tolist()
    assert made.values["y"].tolist() == pair.values["y"].tolist()


def test_what_reads_inputs_alone_has_no_maker(pair):
    with pytest.raises(Inapplicable, match="nothing that is computed"):
        made_plainly(pair, "h", REGISTRY)
