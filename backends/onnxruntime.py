"""ONNX Runtime, CPU (default) or CUDA execution provider.

Level O0 still runs four transformers (among them the one that computes float16 in float32).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nnfuzz.execute.backend import Backend, BackendOptions, BackendUnavailable, Program, option
from nnfuzz.execute.outcome import Stage

_LEVELS = {
    "O0": "ORT_DISABLE_ALL",
    "O1": "ORT_ENABLE_BASIC",
    "O2": "ORT_ENABLE_EXTENDED",
    "O3": "ORT_ENABLE_ALL",
}
# Messages of type Fail or InvalidGraph by which ONNX Runtime says that something is beyond it.
_UNSUPPORTED = (
    "NOT_IMPLEMENTED",
    "Could not find an implementation for",
    "is under development and support for this is limited",
    "Unsupported model IR version",
    "is not supported",
    "is not a registered function/op",
)
_REPRO = """\
OPTIMISATION = {levels!r}


def run(model, inputs, level):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, OPTIMISATION[level])
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers={providers!r})
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))
"""


class OnnxRuntime(Backend):
    """onnxruntime.InferenceSession, one thread, one session per level."""

    name = "onnxruntime"
    levels = tuple(_LEVELS)
    preload = ("onnxruntime",)
    install = 'pip install "nnfuzz[onnxruntime]"'
    max_opset = 26
    max_ir_version = 13

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        provider: Literal["cpu", "cuda"] = option("cpu", "execution provider")

    def versions(self) -> dict[str, str]:
        import onnxruntime

        wanted = self._providers()[0]
        name = wanted if isinstance(wanted, str) else wanted[0]
        if name not in onnxruntime.get_available_providers():
            raise BackendUnavailable(f"this onnxruntime has no {name}: pip install onnxruntime-gpu")
        return {"onnxruntime": onnxruntime.__version__}

    def load(self, model: bytes) -> bytes:
        """ONNX Runtime imports while it creates the session: nothing happens here."""
        return model

    def build(self, module: bytes, level: str) -> Program:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _LEVELS[level])
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = ort.InferenceSession(module, options, providers=self._providers())
        names = [output.name for output in session.get_outputs()]

        def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return dict(zip(names, session.run(names, inputs)))

        return run

    def is_unsupported(self, error: BaseException, stage: Stage) -> bool:
        if type(error).__name__ == "NotImplemented":
            return True
        return type(error).__module__.startswith("onnxruntime") and any(
            text in str(error) for text in _UNSUPPORTED
        )

    def repro(self) -> str:
        return _REPRO.format(levels=_LEVELS, providers=self._providers())

    def _providers(self) -> list[Any]:
        if self.options.provider == "cuda":
            # TF32 is on by default in CUDA convolutions and matrix products.
            return [("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"]
        return ["CPUExecutionProvider"]
