"""Sequences and optionals as inputs and outputs."""

import numpy as np
import onnx
import pytest
from nnfuzz.backends.onnxruntime import OnnxRuntime
from onnx import parser

from nnfuzz.backend.contract import OutputError
from nnfuzz.backend.interface import OnnxModel, read_interface
from nnfuzz.rewrite.rewriting import Step, rewritten
from nnfuzz.rewrite.rules.ends import RULES

MODEL = """
<ir_version: 8, opset_import: ["" : {opset}]>
g (float[2] a, {type}[3] b, int64[2] n) => (float[2] y, {type}[3] z, int64[2] m) {{
   y = Neg (a)
   z = Identity (b)
   m = Add (n, n)
}}
"""
INPUTS = {
    "a": np.array([1, 2], np.float32),
    "b": np.array([3, 4, 5], np.float32),
    "n": np.array([6, 7]),
}
EXPECTED = {"y": -INPUTS["a"], "z": INPUTS["b"], "m": 2 * INPUTS["n"]}
RULE = {rule.name: rule for rule in RULES}
NAMES = [*RULE]


def plain(opset: int = 20, dtype: str = "float") -> bytes:
    return parser.parse_model(MODEL.format(opset=opset, type=dtype)).SerializeToString()


@pytest.mark.parametrize("name", NAMES)
def test_the_tensors_are_those_of_the_graph(name):
    model, kinds, counts = plain(), set[str](), set[int]()
    for number in range(16):
        after, done = rewritten(model, [Step(name, number)])
        assert done
        onnx.checker.check_model(after, full_check=True)
        known = OnnxModel(after)
        (packed,) = (*known.packed_inputs.values(), *known.packed_outputs.values())
        counts.add(len(packed.tensors))
        before, own = read_interface(model), read_interface(after)
        assert {*own[1]} == {*before[1]} and own[0] == before[0]
        backend = OnnxRuntime()
        program = backend.compile(backend.import_model(known), "O3")
        for output, array in program(INPUTS).items():
            np.testing.assert_array_equal(array, EXPECTED[output])
        kinds |= {node.op_type for node in onnx.load_from_string(after).graph.node}
    assert {*RULE[name].uses} <= kinds
    assert "text" not in name or {"RegexFullMatch", "StringConcat"} & kinds
    assert counts == ({1, 2} if "sequence" in name else {1})


@pytest.mark.parametrize("name", NAMES)
def test_old_opsets_and_dtypes_that_numpy_lacks_have_none(name):
    for model in (plain(10), plain(20, "bfloat16")):
        assert rewritten(model, [Step(name)]) == (model, ())


def test_a_compiler_that_returns_another_sequence_is_wrong():
    after, _ = rewritten(plain(), [Step("sequence_output")])
    (name,) = OnnxModel(after).packed_outputs

    class Wrong(OnnxRuntime):
        def build(self, module, level):
            program = super().build(module, level)
            return lambda inputs: {**program(inputs), name: []}

    backend = Wrong()
    with pytest.raises(OutputError, match=f"'{name}' has 0 of"):
        backend.compile(backend.import_model(after), "O0")(INPUTS)
