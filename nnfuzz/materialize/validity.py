"""What ONNX says of a model: whether it is valid, and the types of its values."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from nnfuzz.materialize.walk import graphs

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
    graph = _inferred(model, follow).graph
    return {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}


def types_at_any_depth(model: ModelProto) -> dict[str, ValueInfoProto]:
    """The declarations of all values, those of bodies included, whose names are the model's own."""
    every = [*graphs(_inferred(model, follow=False).graph)]
    return {v.name: v for g in every for v in (*g.value_info, *g.input, *g.output)}


def _inferred(model: ModelProto, follow: bool) -> ModelProto:
    from onnx import shape_inference

    for data_prop in dict.fromkeys((follow, False)):
        with suppress(Exception):  # ONNX raises many kinds, even for models that compilers accept
            return shape_inference.infer_shapes(model, data_prop=data_prop)
    return model
