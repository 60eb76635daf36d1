"""Compilers with planted faults: other forms of a model show what the plain one does not."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

from nnfuzz.vary.rewrite.rewriting import Step, rewritten
from planted.wrong_compilers import COMPILERS

MODEL = """
<ir_version: 9, opset_import: ["" : 20]>
small (float[2, 3] x, float[2, 3] z) => (float[2, 3] y)
<float[2, 3] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}>
{
   r = Mul (x, w)
   c = Concat <axis = 1> (r, z)
   s = Softmax <axis = 1> (c)
   a, b = Split <axis = 1, num_outputs = 2> (s)
   t = Sub (a, z)
   u = Add (t, w)
   y = Sub (u, x)
}
"""
SHOWN_BY = {
    "ignores_attributes_of_calls": "function_with_attribute",
    "loses_the_else_branch": "if_constant",
    "folds_not_away": "if_constant",
    "never_enters_a_loop": "loop_once",
    "forgets_default_inputs": "overridable_input",
    "fills_shapes_with_zeros": "constant_of_shape",
    "drops_one_reversal": "reverse_twice",
    "slices_from_zero": "slice_of_concat",
    "swaps_parameters_of_nested_functions": "nested_function",
    "counts_axes_from_behind_by_one_less": "axis_from_behind",
    "chooses_the_other_of_where": "where_never",
    "merges_slices_of_one_value": "batch_in_parts",
}
"""Planted faults -> the rewrite that gives them something to get wrong."""


@pytest.mark.parametrize("name", SHOWN_BY)
def test_a_rewrite_shows_the_fault(name):
    compiler = next(c for c in COMPILERS if c.name == name)
    plain = parser.parse_model(MODEL.replace("{1.0, 2.0", "{2.0, 2.0")).SerializeToString()
    if name == "fills_shapes_with_zeros":
        ones = MODEL.replace("1.0, 2.0, 3.0, 4.0, 5.0, 6.0", "2.0, 2.0, 2.0, 2.0, 2.0, 2.0")
        plain = parser.parse_model(ones).SerializeToString()
    before = onnx.load_model_from_string(plain)
    assert not compiler.apply(before)
    made = (rewritten(plain, [Step(SHOWN_BY[name], n)])[0] for n in range(40))
    models = map(onnx.load_model_from_string, made)
    assert any(compiler.apply(model) for model in models)


def test_every_planted_fault_says_what_it_does():
    assert len({c.name for c in COMPILERS}) == len(COMPILERS) >= 20
    assert all(c.text.endswith(".") for c in COMPILERS)
