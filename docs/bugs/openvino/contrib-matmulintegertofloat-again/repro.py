#!/usr/bin/env python3
"""openvino: MatMulIntegerToFloat + FusedMatMul, transBatchA=0, transBatchB=0, transA=1, transB=0, ...: wrong values (all levels)

Needs openvino 2026.4.1-22982-e213a147257-releases/2026/4, onnx, numpy, nnfuzz; no other file.

    python repro.py [LEVEL]        levels: O0, O3, dynamic; default: O0

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
   ir_version: 9,
   opset_import: ["" : 19, "com.microsoft" : 1],
   producer_name: "nnfuzz"
>
nnfuzz (int8[1,1] p63, float p64, float p65, float[1,n0] v58) => (float[n0,1] v60) 
   <int8[1,1] p62 =  {1}, float[1,1] p59>
{
   ["com.microsoft.MatMulIntegerToFloat_1"] p59 = com.microsoft.MatMulIntegerToFloat (p62, p63, p64, p65)
   ["com.microsoft.FusedMatMul_2"] v60 = com.microsoft.FusedMatMul <transBatchA: int = 0, transBatchB: int = 0, transA: int = 1, transB: int = 0, alpha: float = 1> (v58, p59)
}"""
INPUTS = {
    'p63': np.array([[1]], 'int8'),
    'p64': np.array(0.4000000059604645, 'float32'),
    'p65': np.array(0.30000001192092896, 'float32'),
    'v58': np.array([[0.0, -4.3728389850589095e-36]], 'float32'),
    'p63_at1': np.array([[1]], 'int8'),
    'p64_at1': np.array(0.4000000059604645, 'float32'),
    'p65_at1': np.array(0.10000000149011612, 'float32'),
    'v58_at1': np.array([[0.0]], 'float32'),
    'p63_at2': np.array([[1]], 'int8'),
    'p64_at2': np.array(0.10000000149011612, 'float32'),
    'p65_at2': np.array(0.10000000149011612, 'float32'),
    'v58_at2': np.array([[0.0, 1344.0]], 'float32'),
}
OUTPUT, DTYPE, SHAPE = 'v60_at2', 'float32', (2, 1)
INDEX = (1, 0)  # the worst of 1 wrong elements
EXPECTED = 13.440000534057617  # computed in float64
LOW, HIGH = 13.439993038176585, 13.440007762909847  # what rounding can account for


# No program of the compiler alone shows the failure: the script needs nnfuzz.
BACKEND = {'name': 'openvino', 'options': {}, 'plugins': [], 'label': 'openvino', 'release': ''}


def compiled(model, level):
    from pathlib import Path

    from nnfuzz.backend.registry import BackendSpec

    plugins = []
    for plugin in BACKEND["plugins"]:
        beside = Path(__file__).resolve().with_name(Path(plugin).name)
        plugins.append(str(beside if beside.is_file() else Path(plugin).expanduser()))
    spec = BackendSpec.from_json({**BACKEND, "plugins": plugins})
    backend = spec.load()
    return backend.compile(backend.import_model(model), level)


def run(model, inputs, level):
    return compiled(model, level)(inputs)


def run_sizes(model, inputs, level):
    """One run per size of the symbolic dimension: NAME_atK belongs to run K, NAME to run 0."""
    runs = {}
    for key, array in inputs.items():
        name, _, k = key.partition("_at")
        runs.setdefault(int(k or 0), {})[name] = array
    program = compiled(model, level)  # one for all sizes
    return {
        f"{name}_at{k}" if k else name: value
        for k, part in sorted(runs.items())
        for name, value in program(part).items()
    }


def load():
    return parser.parse_model(MODEL).SerializeToString(), INPUTS


def main(level):
    try:
        outputs = run_sizes(*load(), level)
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
