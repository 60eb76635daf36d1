"""Checks a model with ONNX's checker."""

from __future__ import annotations


def invalid(model: bytes) -> str:
    """The first line of the error of ONNX's full checker, shape inference included, for a
    serialized model; "" if the model is valid."""
    from onnx import checker, shape_inference

    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, shape_inference.InferenceError, RuntimeError) as error:
        return str(error).strip().partition("\n")[0]
    return ""
