#!/usr/bin/env python3
"""onnxruntime: TreeEnsemble, tree_roots=[0], n_targets=2, post_transform=2, leaf_targetids=[0, 1], ...: wrong values

Needs onnxruntime 1.31.1, onnx, numpy; no other file.

    python repro.py [LEVEL]        levels: O0; default: O0

Exit code 1 while it reproduces, 0 once it is fixed, 125 where it cannot run.
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
   ir_version: 10,
   opset_import: ["" : 21, "ai.onnx.ml" : 5],
   producer_name: "nnfuzz"
>
nnfuzz (float[4,1] v6) => (float[4,2] v7) {
   ["ai.onnx.ml.TreeEnsemble_1"] v7 = ai.onnx.ml.TreeEnsemble <tree_roots: ints = [0], n_targets: int = 2, aggregate_function: int = 1, post_transform: int = 2, leaf_targetids: ints = [0, 1], leaf_weights: tensor = float[2] {0,2}, nodes_modes: tensor = uint8[1] {0}, nodes_featureids: ints = [0], nodes_splits: tensor = float[1] {-2}, nodes_truenodeids: ints = [0], nodes_falsenodeids: ints = [1], nodes_trueleafs: ints = [1], nodes_falseleafs: ints = [1]> (v6)
}"""
INPUTS = {
    'v6': np.array([[-1.8490702276046354e-36], [-2.2784761023747287e-37], [2.0759191940837164e-37], [-2.012424903314756e-37]], 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'v7', 'float32', (4, 2)
INDEX = (0, 0)  # the worst of 4 wrong elements
EXPECTED = 0.5  # computed in float64
LOW, HIGH = 0.4999994933604839, 0.5000005066395161  # what rounding can account for


OPTIMISATION = {'O0': 'ORT_DISABLE_ALL', 'O1': 'ORT_ENABLE_BASIC', 'O2': 'ORT_ENABLE_EXTENDED', 'O3': 'ORT_ENABLE_ALL'}
EXACT = (('session.qdq_matmulnbits_accuracy_level', '1'), ('session.disable_double_qdq_remover', '1'), ('optimization.disable_specified_optimizers', 'WeightBiasQuantization'))


def run(model, inputs, level):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, OPTIMISATION[level])
    options.intra_op_num_threads = 1
    for key, value in EXACT:
        options.add_session_config_entry(key, value)
    session = ort.InferenceSession(model, options, providers=['CPUExecutionProvider'])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    try:
        outputs = run(*load(), level)
    except Exception as error:
        print(f"{level}: cannot run: {type(error).__name__}: {error}")
        return 125
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
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'O0'))
