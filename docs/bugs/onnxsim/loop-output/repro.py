#!/usr/bin/env python3
"""onnxsim: exception in transform (all only): ValueError: the transformed model has other outputs

Needs onnxsim 0.8.1, onnxruntime 1.31.1, onnx, numpy; no other file.

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
nnfuzz (float p0) => (float v4, float v1) 
   <int64 c_2 =  {0}>
{
   [Sinh_1] v1 = Sinh (p0)
   [Loop_11] v4, v5 = Loop (c_2, "", v1, p0) <body: graph = body_10 (int64 b_3, bool b_4, float b_5, float b_6) => (bool Identity_7, float Identity_8, float Identity_9) {
      [Identity_7] Identity_7 = Identity (b_4)
      [Identity_8] Identity_8 = Identity (b_5)
      [Identity_9] Identity_9 = Identity (b_6)
   }>
}"""
INPUTS = {
    'p0': np.array(0.0, 'float32'),
}


def transform(model, without):
    import onnxsim

    return onnxsim.simplify(model, skipped_optimizers=list(without))[0]


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
    print(('Expected: the model compiles and runs. Seen at all, stage transform: ValueError: the '
 'transformed model has other outputs'), flush=True)
    model, inputs = load()
    try:
        run(model, inputs, level)
    except Exception as error:
        print(f"{level}: {type(error).__module__}.{type(error).__qualname__}: {error}")
        return 1
    print(f"{level}: the model compiles and runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'all'))
