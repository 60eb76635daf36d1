"""Collects real failures for the golden corpus: odd models through the runner, into testdata/.

    python tests/triage/collect.py onnxruntime tvm

Then `pytest tests/triage --update` writes the signatures; read the difference before committing.
"""

import json
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto as T
from onnx import helper

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.writing import as_json
from nnfuzz.triage.signature import FAILURES

TESTDATA = Path(__file__).parent / "testdata"


def model(nodes, inputs, outputs, opset=18):
    def declared(values):
        return [helper.make_tensor_value_info(*value) for value in values]

    graph = helper.make_graph(nodes, "g", declared(inputs), declared(outputs))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return made.SerializeToString()


def node(op, inputs, outputs="y", **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def models():
    """Name -> (model, inputs). Most are invalid: what counts is what the compilers say."""
    x23, y = ("x", T.FLOAT, [2, 3]), ("y", T.FLOAT, None)
    bools = ("y", T.BOOL, None)
    ints = [("x", T.INT32, [1]), ("z", T.INT32, [1])]
    return {
        "broadcast": (
            model([node("Add", "x z")], [("x", T.FLOAT, [2]), ("z", T.FLOAT, [3])], [y]),
            {"x": ones(2), "z": ones(3)},
        ),
        "prelu_rank_0": (
            model([node("PRelu", "x z")], [("x", T.FLOAT, []), ("z", T.FLOAT, [])], [y]),
            {"x": ones(), "z": ones()},
        ),
        "unknown_operator": (model([node("Foo", "x")], [x23], [y]), {"x": ones(2, 3)}),
        "conv_int8": (
            model(
                [node("Conv", "x z")],
                [("x", T.INT8, [1, 1, 4, 4]), ("z", T.INT8, [1, 1, 2, 2])],
                [("y", T.INT8, None)],
            ),
            {"x": ones(1, 1, 4, 4, dtype=np.int8), "z": ones(1, 1, 2, 2, dtype=np.int8)},
        ),
        "reshape": (
            model([node("Reshape", "x s")], [x23, ("s", T.INT64, [2])], [y]),
            {"x": ones(2, 3), "s": np.array([4, 4])},
        ),
        "gather_out_of_bounds": (
            model([node("Gather", "x s")], [x23, ("s", T.INT64, [1])], [y]),
            {"x": ones(2, 3), "s": np.array([1 << 40])},
        ),
        "transpose_rank": (
            model([node("Relu", "x", "h"), node("Transpose", "h", perm=[0, 1, 2])], [x23], [y]),
            {"x": ones(2, 3)},
        ),
        "modulo_by_zero": (
            model([node("Mod", "x z")], ints, [("y", T.INT32, [1])]),
            {"x": ones(1, dtype=np.int32), "z": np.zeros(1, np.int32)},
        ),
        "acos": (model([node("Acos", "x")], [x23], [y]), {"x": ones(2, 3)}),
        "acos_float16": (
            model([node("Acos", "x")], [("x", T.FLOAT16, [2])], [("y", T.FLOAT16, None)]),
            {"x": ones(2, dtype=np.float16)},
        ),
        "equal_bool": (
            model([node("Equal", "x z")], [("x", T.BOOL, [2]), ("z", T.BOOL, [2])], [bools]),
            {"x": ones(2, dtype=bool), "z": ones(2, dtype=bool)},
        ),
        "matmul_scalar": (
            model([node("MatMul", "x z")], [x23, ("z", T.FLOAT, [])], [y]),
            {"x": ones(2, 3), "z": ones()},
        ),
        "vectors_matmul": (
            model([node("MatMul", "x z")], [("x", T.FLOAT, [3]), ("z", T.FLOAT, [3])], [y]),
            {"x": ones(3), "z": ones(3)},
        ),
        "split_unequal": (
            model([node("Split", "x s", "y h", axis=1)], [x23, ("s", T.INT64, [2])], [y]),
            {"x": ones(2, 3), "s": np.array([1, 1])},
        ),
        "pool_too_large": (
            model([node("MaxPool", "x", kernel_shape=[9])], [("x", T.FLOAT, [1, 1, 3])], [y]),
            {"x": ones(1, 1, 3)},
        ),
    }


def collect(name, registry):
    with BackendRunner(registry.parse(f"{name},timeout=20"), registry) as runner:
        for case, (made, inputs) in models().items():
            outcomes = runner.run(made, inputs)
            if any(o.kind in FAILURES for o in outcomes):
                data = [{**as_json(o), "seconds": {}} for o in outcomes]
                text = json.dumps({"outcomes": data}, indent=1)
                (TESTDATA / f"{name}_{case}.json").write_text(text + "\n")
                print(name, case, *(f"{o.level}:{o.kind}" for o in outcomes))


if __name__ == "__main__":
    found = BackendRegistry.discover()
    for backend in sys.argv[1:]:
        collect(backend, found)
