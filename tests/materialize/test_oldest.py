"""Models are declared for the oldest opset at which they say the same."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from nnfuzz.materialize.oldest import at_oldest_opset


def model(*nodes, opset=26, domain=""):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph(list(nodes), "g", [x], [y])
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    return helper.make_model(graph, opset_imports=opsets, ir_version=13).SerializeToString()


def branch():
    y = helper.make_tensor_value_info("z", TensorProto.FLOAT, [2])
    return helper.make_graph([helper.make_node("Gelu", ["x"], ["z"])], "b", [], [y])


@pytest.mark.parametrize(
    ("nodes", "opset", "ir_version"),
    [
        ([helper.make_node("Relu", ["x"], ["y"])], 14, 7),
        ([helper.make_node("Erf", ["x"], ["y"])], 13, 7),
        ([helper.make_node("Gelu", ["x"], ["y"])], 20, 9),
    ],
)
def test_the_newest_operator_decides(nodes, opset, ir_version):
    found = onnx.load_model_from_string(at_oldest_opset(model(*nodes)))
    assert [entry.version for entry in found.opset_import] == [opset]
    assert found.ir_version == ir_version
    onnx.checker.check_model(found)


def test_operators_inside_of_others_count():
    cond = helper.make_node("Constant", [], ["c"], value_int=1)
    cast = helper.make_node("Cast", ["c"], ["d"], to=TensorProto.BOOL)
    taken = helper.make_node("If", ["d"], ["y"], then_branch=branch(), else_branch=branch())
    whole = model(cond, cast, taken, opset=22)
    found = onnx.load_model_from_string(at_oldest_opset(whole))
    assert found.opset_import[0].version == 21  # of Constant, Cast and If
    gelu = onnx.load_model_from_string(at_oldest_opset(model(*branch().node, opset=22)))
    assert gelu.opset_import[0].version == 20


@pytest.mark.parametrize("kept", [model(helper.make_node("Relu", ["x"], ["y"]), opset=14)])
def test_what_is_old_enough_stays(kept):
    assert at_oldest_opset(kept) == kept


def test_what_has_operators_of_others_stays():
    node = helper.make_node("Mine", ["x"], ["y"], domain="mine")
    kept = model(node, domain="mine")
    assert at_oldest_opset(kept) == kept
