"""A compiler with a bug to order: NumPy's tanh(x + w), wrong at O1 in the way that `bug` names."""

import os
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nnfuzz.backend.contract import Backend, BackendOptions, option


class Planted(Backend):
    name = "planted"
    levels = ("O0", "O1")
    threads = True

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        bug: Literal["none", "value", "shape", "raise", "raise_all", "abort", "unsupported"] = (
            option("none", "what goes wrong")
        )

    def versions(self):
        return {"planted": "1.0"}

    def load(self, model):
        import onnx
        from onnx import numpy_helper

        proto = onnx.load_model_from_string(model)
        return {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}

    def build(self, module, level):
        bug = self.options.bug
        if bug == "raise_all" or (bug == "raise" and level == "O1"):
            raise ValueError(f"cannot fuse 'n{len(module)}' | `x` <b>")
        if bug == "unsupported":
            raise NotImplementedError("no Tanh")

        def run(inputs):
            y = np.tanh(inputs["x"] + module["w"])
            if level == "O1" and bug == "abort":
                os.abort()
            if level == "O1" and bug == "value":
                y[1, 2] *= np.float32(1.001)
            return {"y": y[:1] if level == "O1" and bug == "shape" else y}

        return run
