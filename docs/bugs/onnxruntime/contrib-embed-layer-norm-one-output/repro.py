#!/usr/bin/env python3
"""onnxruntime: type inference of EmbedLayerNormalization with one output fails.

The schema's second output, mask_index, is optional (min_output is 1); a node without it is refused.

Needs onnxruntime 1.31.1, onnx, numpy; no other file. Exit code 1 while it reproduces, 0 once it is
fixed, 125 where it cannot run.
"""

from __future__ import annotations

import sys

try:
    import numpy as np
    import onnxruntime as ort
    from onnx import parser
except ImportError as error:
    print(f"cannot run: {error}")
    sys.exit(125)

MODEL = """
<
   ir_version: 8,
   opset_import: ["" : 17, "com.microsoft" : 1]
>
g (int32[1,2] ids, float[3,2] words, float[2,2] places, float[2] one, float[2] zero) => (float[1,2,2] y) {
   y = com.microsoft.EmbedLayerNormalization (ids, "", words, places, "", one, zero)
}"""
INPUTS = {
    "ids": np.array([[1, 2]], "int32"),
    "words": np.array([[0, 0], [1, 3], [2, 6]], "float32"),
    "places": np.zeros((2, 2), "float32"),
    "one": np.ones(2, "float32"),
    "zero": np.zeros(2, "float32"),
}

try:
    session = ort.InferenceSession(
        parser.parse_model(MODEL).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    print(session.run(None, INPUTS)[0])
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    sys.exit("output index 1" in str(error))
