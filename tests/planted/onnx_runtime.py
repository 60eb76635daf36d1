"""ONNX Runtime with one wrong kernel: floats are 3 % too large, integers 1, truth values wrong."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
from onnx import TensorProto, helper

from backends.onnxruntime import OnnxRuntime
from nnfuzz.backend.contract import option
from nnfuzz.backend.registry import backend

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
INTEGERS = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64)
PLANTABLE = (*FLOATS, *INTEGERS, TensorProto.BOOL)


def types(model: onnx.ModelProto) -> dict[str, int]:
    """The dtypes of the values that nodes of the main graph compute, as far as ONNX infers them."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    known = {v.name: v.type.tensor_type.elem_type for v in (*graph.value_info, *graph.output)}
    made = (name for node in graph.node for name in node.output)
    return {name: known[name] for name in made if name in known}


def wrong_at(model: onnx.ModelProto, value: str) -> None:
    """Changes what the node of a value computes, if the model has the value."""
    code, right = types(model).get(value), f"{value}/right"
    if code is None:
        return
    position, node = next(p for p in enumerate(model.graph.node) if value in p[1].output)
    node.output[list(node.output).index(value)] = right
    if code == TensorProto.BOOL:
        added = [helper.make_node("Not", [right], [value])]
    else:
        wide = code if code in FLOATS else TensorProto.INT64
        kind, number = ("Mul", 1.03) if code in FLOATS else ("Add", 1)
        model.graph.initializer.append(helper.make_tensor(f"{value}/by", wide, [], [number]))
        added = [
            helper.make_node("Cast", [right], [f"{value}/wide"], to=wide),
            helper.make_node(kind, [f"{value}/wide", f"{value}/by"], [f"{value}/wrong"]),
            helper.make_node("Cast", [f"{value}/wrong"], [value], to=code),
        ]
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes[: position + 1], *added, *nodes[position + 1 :]])


@backend
class Planted(OnnxRuntime):
    """ONNX Runtime on the changed model."""

    name = "planted"

    @dataclass(frozen=True, kw_only=True)
    class Options(OnnxRuntime.Options):
        value: str = option("", "what the wrong node computes")

    def load(self, model: bytes) -> bytes:
        changed = onnx.load_model_from_string(bytes(model))
        wrong_at(changed, self.options.value)
        return changed.SerializeToString()
