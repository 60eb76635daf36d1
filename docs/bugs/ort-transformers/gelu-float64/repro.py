#!/usr/bin/env python3
"""ort-transformers: wrong value at Gelu (all only)

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

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
   producer_name: "pytorch",
   producer_version: "2.13.0"
>
main_graph (double[1] v7) => (double[1] v10) {
   ["/Mul"] "/Mul_output_0" = Mul (v7, v7)
   ["/Mul_1"] "/Mul_1_output_0" = Mul (v7, "/Mul_output_0")
   ["/Constant"] "/Constant_output_0" = Constant <value: tensor = double {0.044715}> ()
   ["/Mul_2"] "/Mul_2_output_0" = Mul ("/Constant_output_0", "/Mul_1_output_0")
   ["/Add"] "/Add_output_0" = Add (v7, "/Mul_2_output_0")
   ["/Constant_1"] "/Constant_1_output_0" = Constant <value: tensor = double {0.7978845608028654}> ()
   ["/Mul_3"] "/Mul_3_output_0" = Mul ("/Constant_1_output_0", "/Add_output_0")
   ["/Tanh"] "/Tanh_output_0" = Tanh ("/Mul_3_output_0")
   ["/Constant_2"] "/Constant_2_output_0" = Constant <value: tensor = double {1}> ()
   ["/Add_1"] "/Add_1_output_0" = Add ("/Constant_2_output_0", "/Tanh_output_0")
   ["/Mul_4"] "/Mul_4_output_0" = Mul (v7, "/Add_1_output_0")
   ["/Constant_3"] "/Constant_3_output_0" = Constant <value: tensor = double {0.5}> ()
   ["/Mul_5"] v10 = Mul ("/Constant_3_output_0", "/Mul_4_output_0")
}"""
INPUTS = {
    'v7': np.array([-2.0], 'float64'),
}
OUTPUT, DTYPE, SHAPE = 'v10', 'float64', (1,)
INDEX = (0,)  # the worst of 1 wrong elements
EXPECTED = -0.04540230591222494  # computed in float64
LOW, HIGH = -0.04540236551687327, -0.0454022463075766  # what rounding can account for


def transform(model, without):
    import tempfile

    import onnx
    from onnxruntime.transformers import optimizer

    found = optimizer.optimize_model(model, opt_level=0)
    with tempfile.TemporaryDirectory() as folder:
        found.save_model_to_file(f"{folder}/model.onnx")  # sorts nodes, adds domains
        return onnx.load(f"{folder}/model.onnx")


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
    check_transformed(before, after, standard=False)
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
