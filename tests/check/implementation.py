"""Further reference implementations: operators read from the text of the ONNX standard, in float64.

A standard implementation is a class named like the operator, with `compute` instead of
onnx.reference's `_run`; the folder `standard` has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx.reference.op_run import OpRun

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.outcome import Stage
from nnfuzz.check.runtimes import Arrays, Runtime, Unavailable, named, run_reference
from nnfuzz.ir.dtypes import is_floating
from nnfuzz.materialize.walk import graphs, qualified_name

STANDARD_IMPLEMENTATION = "standard implementation"


class StandardImplementation(OpRun):
    """An implementation that sees floats in float64; results are rounded to the first input's type.

    Where that is no float, or an output is not, results keep the types that `compute` gives them.
    """

    op_domain = ""

    def compute(self, *args: object, **attributes: object) -> object:
        """One output, or a tuple; inputs that are left out are None, attributes have defaults."""
        raise NotImplementedError

    def _run(self, *args: Any, **attributes: object) -> tuple[np.ndarray, ...]:
        attributes = {k: _plain(v) for k, v in attributes.items() if k != "attributes"}
        computed = self.compute(*[_wide(a) for a in args], **attributes)
        outputs = computed if isinstance(computed, tuple) else (computed,)
        dtype = next((a.dtype for a in args if _is_float(a)), None)
        narrow = (np.asarray(y).astype(dtype) if _is_float(y) else np.asarray(y) for y in outputs)
        return tuple(narrow)[: len(self.onnx_node.output)]


def standard_implementations_of(module: ModuleType) -> list[type[OpRun]]:
    """The implementations of operators that a module defines itself."""
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    return [c for c in classes if issubclass(c, OpRun) and c.__module__ == module.__name__]


def runtime_of_standard_implementations(own: Iterable[type[OpRun]]) -> Runtime:
    """onnx.reference with other implementations of some operators, for models that have these.

    Raises (the runtime): Unavailable.
    """
    known = list(own)
    names = {".".join(filter(None, (op.op_domain, op.__name__))) for op in known}

    def run(model: onnx.ModelProto, arrays: Sequence[np.ndarray]) -> Arrays:
        if names.isdisjoint(qualified_name(n) for part in graphs(model.graph) for n in part.node):
            raise Unavailable("no standard implementation is given of these operators")
        return run_reference(model, arrays, known)

    return run


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
            if backend.is_unsupported(error, stage):
                raise Unavailable(str(error)) from None
            raise
        return [outputs[name] for name in imported.outputs]

    return run


def _plain(value: Any) -> object:
    """An attribute with floats of Python, which do not draw the rest into float32."""
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return float(value) if isinstance(value, np.floating) else value


def _is_float(value: Any) -> bool:
    return value is not None and is_floating(np.asarray(value))


def _wide(value: Any) -> object:
    return np.asarray(value).astype(np.float64) if _is_float(value) else value
