"""Names of inputs and outputs come back, whatever the exporter made of them."""

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.names import redeclare, restore

MODEL = """
<ir_version: 9, opset_import: ["" : 20]>
g (bool c) => (float[1] k, float[1] y) <float[1] k = {2}> {
   y = If (c) <
      then_branch: graph = a () => (float[1] t) { t = Neg (k) },
      else_branch: graph = b () => (float[1] e) { e = Identity (k) }
   >
}
"""


def test_a_constant_that_is_an_output_is_still_read_in_branches():
    model = onnx.parser.parse_model(MODEL)
    assert restore(model.graph, ["c"], ["v1", "v2"])
    onnx.checker.check_model(model, full_check=True)
    found = ReferenceEvaluator(model).run(["v1", "v2"], {"c": np.array(True)})
    assert [float(x[0]) for x in found] == [2.0, -2.0]


def test_only_declarations_that_do_not_hold_are_replaced():
    model = onnx.parser.parse_model("g (float[N] x) => (float[N] y, float[2] z) { y = Abs (x) }")
    types = {name: TensorType(DType.FLOAT32, (3,)) for name in "yz"}
    assert redeclare(model.graph, types)
    y, z = (item.type.tensor_type.shape.dim[0] for item in model.graph.output)
    assert (y.dim_param, z.dim_value) == ("N", 3)
    assert not redeclare(model.graph, types)
