"""Is a model valid at its opset? ONNX's checker decides."""

from __future__ import annotations


def invalid(model: bytes) -> str:
    """What ONNX's full checker, shape inference included, says of a serialized model: the first
    line of its complaint; "" if the model is valid.
    """
    from onnx import checker, shape_inference

    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, shape_inference.InferenceError, RuntimeError) as error:
        return str(error).strip().partition("\n")[0]
    return ""
