"""Checks a model with ONNX's checker."""

from __future__ import annotations


def invalid(model: bytes, full: bool = True) -> str:
    """The first line of the error of ONNX's checker for a serialized model; "" if it is valid.
    full: with shape inference."""
    from onnx import checker, shape_inference

    try:
        checker.check_model(model, full_check=full)
    except (checker.ValidationError, shape_inference.InferenceError, RuntimeError) as error:
        return str(error).strip().partition("\n")[0]
    return ""
