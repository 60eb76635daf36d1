"""The adapter of toyc."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from nnfuzz.backend.complaint import CompilerError, Complaint, ComplaintKind, read_complaint
from nnfuzz.backend.contract import Backend, BackendOptions, Program, option
from nnfuzz.backend.interface import from_bytes, onnx_dtype, to_bytes

REPRO = """\
def run(model, inputs, level):
    import toyc
    from onnx import numpy_helper

    protos = {name: numpy_helper.from_array(array) for name, array in inputs.items()}
    tensors = {n: toyc.Tensor(p.raw_data, p.data_type, p.dims) for n, p in protos.items()}
    return {n: t.array() for n, t in toyc.Program(model).run(tensors).items()}
"""


class Toyc(Backend):
    name = "toyc"
    levels = ("O2",)  # it cannot be told to optimise less
    preload = ("toyc",)
    max_opset = 21
    narrows = {"float64": "float32"}

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        device: Literal["cpu", "npu"] = option("cpu", "what programs are for")

    def versions(self) -> dict[str, str]:
        import toyc

        return {"toyc": toyc.__version__}

    def load(self, model: bytes) -> bytes:
        return model

    def build(self, module: bytes, level: str) -> Program:
        import toyc

        program = toyc.Program(module, self.options.device)

        def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            given = {n: toyc.Tensor(to_bytes(a), onnx_dtype(a), a.shape) for n, a in inputs.items()}
            return {n: from_bytes(t.raw, t.dtype, t.shape) for n, t in program.run(given).items()}

        return run

    @classmethod
    def complaint(cls, error: CompilerError) -> Complaint:
        said = read_complaint(error)
        return said.of_kind(ComplaintKind.UNSUPPORTED) if "(E17)" in said.subject else said

    def repro(self) -> str:
        return REPRO
