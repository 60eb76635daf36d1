#!/usr/bin/env python3
"""openvino: compile_model does not end for two additions of float64 or int64 constants

Needs openvino 2026.4.1-22982-e213a147257-releases/2026/4, onnx, numpy; no other file.

    python repro.py [SECONDS]        how long it may take; default: 60

Exit code 1 while it reproduces, 0 once it is fixed.
"""

import multiprocessing
import sys

from onnx import parser

MODEL = """
<
   ir_version: 7,
   opset_import: ["" : 14]
>
nnfuzz () => (double[2] y)
   <double[2] a = {1, 2}, double[2] b = {3, 4}, double[2] c = {5, 6}>
{
   sum = Add (a, b)
   y = Add (sum, c)
}"""


def compile_model(model):
    import openvino as ov

    core = ov.Core()
    core.compile_model(core.read_model(model), "CPU", {"INFERENCE_NUM_THREADS": 1})


def main(seconds):
    print("Expected: the model compiles within a second. In float32 it does.", flush=True)
    model = parser.parse_model(MODEL).SerializeToString()
    child = multiprocessing.get_context("spawn").Process(target=compile_model, args=(model,))
    child.start()
    child.join(seconds)
    if child.is_alive():
        child.kill()
        print(f"compile_model has not come back after {seconds:g} s")
        return 1
    print(f"compile_model ended with exit code {child.exitcode}")
    return 0 if child.exitcode == 0 else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60))
