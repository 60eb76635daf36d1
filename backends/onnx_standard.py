"""ONNX's own checker and shape inference, which decide whether a model is valid.

They compute nothing, so no numbers are compared, but an error for a valid model is a finding. Like
every compiler, they are also tested with invalid models.
"""

from __future__ import annotations

import numpy as np

from nnfuzz.backend.contract import Backend, NoDevice, Program


class OnnxChecker(Backend):
    """onnx.checker.check_model with full_check, which runs strict shape inference as well."""

    name = "onnx-checker"
    levels = ("full",)
    preload = ("onnx", "onnx.checker")
    install = "pip install onnx"

    def versions(self) -> dict[str, str]:
        import onnx

        return {"onnx": onnx.__version__}

    def load(self, model: bytes) -> bytes:
        """Does nothing: it is read and checked at once."""
        return model

    def build(self, module: bytes, level: str) -> Program:
        import onnx

        onnx.checker.check_model(module, full_check=True)
        return _nothing_to_run

    def repro(self) -> str:
        return _REPRO.format(call="onnx.checker.check_model(model, full_check=True)")


class OnnxInference(OnnxChecker):
    """onnx.shape_inference.infer_shapes with all checks, and propagation of known values.

    It is no checker, so accepting an invalid model is not its fault.
    """

    name = "onnx-inference"
    levels = ("strict",)
    preload = ("onnx", "onnx.shape_inference")
    validates = False

    def build(self, module: bytes, level: str) -> Program:
        import onnx

        onnx.shape_inference.infer_shapes(module, check_type=True, strict_mode=True, data_prop=True)
        return _nothing_to_run

    def repro(self) -> str:
        options = "check_type=True, strict_mode=True, data_prop=True"
        return _REPRO.format(call=f"onnx.shape_inference.infer_shapes(model, {options})")


_REPRO = """\
def run(model, inputs, level):
    import onnx

    {call}
    return {{}}
"""


def _nothing_to_run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    raise NoDevice
