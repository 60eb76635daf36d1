"""Names of inputs and outputs come back, whatever the exporter made of them."""

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from nnfuzz.materialize.names import restore

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
