"""What ONNX says of a model: whether it is valid, and the types of its values."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


def invalid(model: bytes, full: bool = True) -> str:
    """The first line of the error of ONNX's checker for a serialized model; "" if it is valid.
    full: with shape inference."""
    from onnx import checker, shape_inference

    try:
        checker.check_model(model, full_check=full)
    except (checker.ValidationError, shape_inference.InferenceError, RuntimeError) as error:
        return str(error).strip().partition("\n")[0]
    return ""


def declared_types(model: ModelProto, follow: bool = False) -> dict[str, ValueInfoProto]:
    """The declarations of values of the main graph: those of the model, and what ONNX infers.

    follow: also by values that describe shapes, which may need too much memory; else without.
    """
    from onnx import shape_inference

    for data_prop in dict.fromkeys((follow, False)):
        with suppress(Exception):  # ONNX raises many kinds, even for models that compilers accept
            model = shape_inference.infer_shapes(model, data_prop=data_prop)
            break
    graph = model.graph
    return {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
