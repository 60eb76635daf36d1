#!/usr/bin/env python3
"""onnxruntime: BatchNormalization, epsilon=0.1, training_mode=1 + ReduceSumSquare, keepdims=0: wrong values, only at call 2

Needs onnxruntime 1.32.0, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0; default: O0

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run or fails otherwise.
"""

from __future__ import annotations

import sys

try:
    import numpy as np
    from onnx import parser
except ImportError as error:
    print(f"cannot run: {error}")
    sys.exit(125)

MODEL = """
<
   ir_version: 8,
   opset_import: ["" : 15],
   producer_name: "nnfuzz"
>
nnfuzz (float[2,1] p9) => (float v17) 
   <float[1] p10 =  {0}, float[1] p13 =  {0}>
{
   [BatchNormalization_1] p6, v14, v15 = BatchNormalization <epsilon: float = 0.1, momentum: float = 0.9, training_mode: int = 1> (p9, p10, p10, p10, p13)
   [ReduceSumSquare_4] v17 = ReduceSumSquare <keepdims: int = 0> (v15)
}"""
INPUTS = {
    'p9': np.array([[0.0], [80.0]], 'float32'),
    'p9_at1': np.array([[0.0], [-9.0]], 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'v17_at1', 'float32', ()
INDEX = ()  # the worst of 1 wrong elements
EXPECTED = 4.1006269454956055  # computed in float64
LOW, HIGH = 4.100613768844326, 4.100640141835094  # what rounding can account for


OPTIMISATION = {'O0': 'ORT_DISABLE_ALL', 'O1': 'ORT_ENABLE_BASIC', 'O2': 'ORT_ENABLE_EXTENDED', 'O3': 'ORT_ENABLE_ALL', 'default': 'ORT_ENABLE_ALL'}
EXACT = (('session.qdq_matmulnbits_accuracy_level', '1'), ('session.disable_double_qdq_remover', '1'), ('optimization.disable_specified_optimizers', 'WeightBiasQuantization'))


def compiled(model, level):
    import onnxruntime as ort

    exact = {} if level == "default" else dict(EXACT)  # default: as everybody opens it
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, OPTIMISATION[level])
    options.intra_op_num_threads = 1
    for key, value in exact.items():
        options.add_session_config_entry(key, value)
    session = ort.InferenceSession(model, options, providers=['CPUExecutionProvider'])
    names = [output.name for output in session.get_outputs()]

    def call(inputs):
        return dict(zip(names, session.run(names, inputs)))

    return call


def run_calls(model, inputs, level):
    """Calls one program several times: NAME_atK belongs to call K, NAME to call 0."""
    calls = {}
    for key, array in inputs.items():
        name, _, k = key.partition("_at")
        calls.setdefault(int(k or 0), {})[name] = array
    call = compiled(model, level)
    results = {k: call(part) for k, part in sorted(calls.items())}
    return {
        f"{name}_at{k}" if k else name: value
        for k, part in results.items()
        for name, value in part.items()
    }


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    try:
        outputs = run_calls(*load(), level)
    except Exception as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
    if OUTPUT not in outputs:
        print(f"{level}: there is no output {OUTPUT!r}")
        return 125
    actual = np.asarray(outputs[OUTPUT])
    print(f"{level}: {OUTPUT} is {actual.dtype}{list(actual.shape)},", end=" ")
    print(f"expected {DTYPE}{list(SHAPE)}")
    if (str(actual.dtype), actual.shape) != (DTYPE, SHAPE):
        return 125
    value = type(EXPECTED)(actual[INDEX])  # NumPy would round the bounds to its dtype
    print(f"element {INDEX}: actual {value}, expected {EXPECTED} in [{LOW}, {HIGH}]")
    return 0 if LOW <= value <= HIGH else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
