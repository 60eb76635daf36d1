"""A backend as a reference implementation of operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.outcome import Stage
from nnfuzz.check.runtimes import Arrays, Runtime, Unavailable, named
from tests.models import is_refusal


def runtime_of(backend: Backend) -> Runtime:
    """A backend at its least optimised level, run in this process.

    Raises (the runtime): Unavailable for models that the backend itself calls unsupported.
    """

    def run(model: onnx.ModelProto, arrays: Sequence[np.ndarray]) -> Arrays:
        stage = Stage.COMPILE
        try:
            imported = backend.import_model(model.SerializeToString())
            program = backend.compile(imported, backend.levels[0])
            stage = Stage.EXECUTE
            outputs = program(named(arrays))
        except Exception as error:
            if is_refusal(backend, error, stage):
                raise Unavailable(str(error)) from None
            raise
        return [outputs[name] for name in imported.outputs]

    return run
