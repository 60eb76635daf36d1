#!/usr/bin/env python3
"""onnxslim: wrong value at If (all only)

Needs onnxslim 0.1.98, onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: none, all; default: all

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import sys

import numpy as np
from onnx import parser

MODEL = """
<
   ir_version: 8,
   opset_import: ["" : 18],
   producer_name: "nnfuzz"
>
nnfuzz () => (float v13, float v19) 
   <float p1 =  {0.3}, bool p11 =  {0}>
{
   [If_8] v12, v13 = If (p11) <then_branch: graph = body_3 () => (float Identity_1, float Identity_2) {
      [Identity_1] Identity_1 = Identity (p1)
      [Identity_2] Identity_2 = Identity (p1)
   }, else_branch: graph = body_7 () => (float Identity_6, float b_4) {
      [Erf_5] b_4 = Erf (p1)
      [Identity_6] Identity_6 = Identity (p1)
   }>
   [Atanh_10] v19 = Atanh (v12)
}"""
INPUTS = {
}
OUTPUT, DTYPE, SHAPE = 'v13', 'float32', ()
INDEX = ()  # the worst of 1 wrong elements
EXPECTED = 0.3286267817020416  # computed in float64
LOW, HIGH = 0.32862602669465574, 0.3286275168107751  # what rounding can account for


def transform(model, without):
    import onnxslim

    off = list(without)
    return onnxslim.slim(model, skip_optimizations=off, skip_fusion_patterns=off)


def check_transformed(before, after, standard=True):
    """Raises: ValidationError, InferenceError or ValueError if `after` is no valid model with the
    inputs and outputs of `before`. standard: whether ONNX's checker knows all of its operators.
    """
    import onnx

    if standard:
        onnx.checker.check_model(after, full_check=True)
    weights = [{tensor.name for tensor in model.graph.initializer} for model in (before, after)]
    for kind in ("input", "output"):
        old, new = (
            [value for value in getattr(model.graph, kind) if value.name not in own]
            for model, own in zip((before, after), weights if kind == "input" else ([], []))
        )
        if [value.name for value in old] != [value.name for value in new]:
            raise ValueError(f"the transformed model has other {kind}s")
        for was, now in zip(old, new):
            one, other = was.type.tensor_type, now.type.tensor_type
            if one.elem_type != other.elem_type:
                raise ValueError(f"the transformed model declares another dtype of {was.name}")
            sizes = [
                (a.dim_value, b.dim_value)
                for a, b in zip(one.shape.dim, other.shape.dim)
                if a.HasField("dim_value") and b.HasField("dim_value")
            ]
            ranks = {len(t.shape.dim) for t in (one, other) if t.HasField("shape")}
            if len(ranks) > 1 or any(a != b for a, b in sizes):
                raise ValueError(f"the transformed model declares another shape of {was.name}")


def transformed(model, level):
    import onnx

    if level == "none":
        return model
    before, copy = (onnx.load_model_from_string(model) for _ in range(2))
    after = transform(copy, ())
    check_transformed(before, after, standard=True)
    return after.SerializeToString()


OPTIMISATION = {'none': 'ORT_DISABLE_ALL', 'all': 'ORT_DISABLE_ALL'}
EXACT = (('session.qdq_matmulnbits_accuracy_level', '1'), ('session.disable_double_qdq_remover', '1'))


def run(model, inputs, level):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, OPTIMISATION[level])
    options.intra_op_num_threads = 1
    for key, value in EXACT:
        options.add_session_config_entry(key, value)
    session = ort.InferenceSession(transformed(model, level), options, providers=['CPUExecutionProvider'])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    outputs = run(*load(), level)
    if OUTPUT not in outputs:
        print(f"{level}: there is no output {OUTPUT!r}")
        return 1
    actual = np.asarray(outputs[OUTPUT])
    print(f"{level}: {OUTPUT} is {actual.dtype}{list(actual.shape)},", end=" ")
    print(f"expected {DTYPE}{list(SHAPE)}")
    if (str(actual.dtype), actual.shape) != (DTYPE, SHAPE):
        return 1
    value = type(EXPECTED)(actual[INDEX])  # NumPy would round the bounds to its dtype
    print(f"element {INDEX}: actual {value}, expected {EXPECTED} in [{LOW}, {HIGH}]")
    return 0 if LOW <= value <= HIGH else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'all'))
