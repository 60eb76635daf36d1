"""Validity of a model at its opset by ONNX's checker."""

from __future__ import annotations


def invalid(model: bytes) -> str:
    """The first line of the complaint of ONNX's full checker, shape inference included, about a
    serialized model; "" if it is valid.
    """
    from onnx import checker, shape_inference

    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, shape_inference.InferenceError, RuntimeError) as error:
        return str(error).strip().partition("\n")[0]
    return ""
