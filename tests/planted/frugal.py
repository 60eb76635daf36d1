"""A compiler with habits: comparisons pass over NaN, float64 is computed in float32.

    nnfuzz fuzz --plugin tests/planted/frugal.py -b frugal --tests 600 --set edges=yes
    python -m scripts.check.triage CAMPAIGN --truth tests/planted/frugal.py

Each habit is told once, whatever operators it is in. It declares what it takes. One operator more
has a fault of its own, and one a fault at the signs of zeros only, which is listed last.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Faults, FaultyBackend, FaultyCompiler

FAULTS = Faults()


def floats(values):
    return all(isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in values)


@FAULTS.kernel("Max", "Min", "Relu", "Clip", "ReduceMax", "ReduceMin")
def nan_ignored(node, inputs, run):
    """Comparisons pass over NaN."""
    if not inputs or not floats(inputs[:1]):
        return run()
    low = {"Max": -np.inf, "ReduceMax": -np.inf}.get(node.op, np.inf)
    low = 0.0 if node.op in ("Relu", "Clip") else low
    cleared = [np.where(np.isnan(x), x.dtype.type(low), x) if floats([x]) else x for x in inputs]
    return run(*cleared)


@FAULTS.kernel("Add", "Sub", "Mul", "Max", "Min", "ReduceSum")
def double_in_float(node, inputs, run):
    """float64 is computed in float32."""
    if not (inputs and floats(inputs[:1]) and inputs[0].dtype == np.float64):
        return run()
    with np.errstate(over="ignore"):
        narrow = [x.astype(np.float32) if x.dtype == np.float64 else x for x in inputs]
    return [y.astype(np.float64) for y in run(*narrow)]


@FAULTS.kernel("Sign")
def sign_of_one(node, inputs, run):
    """Everything is 1."""
    return [np.ones_like(y) for y in run()]


@FAULTS.kernel("Abs")
def negative_zero(node, inputs, run):
    """The sign of zero stays."""
    (found,) = run()
    if found.dtype.kind != "f":
        return [found]
    return [np.where(found == 0, -np.zeros((), found.dtype), found)]


COMPILER = FaultyCompiler(FAULTS)
causes_of = COMPILER.causes_of


@backend
class Frugal(FaultyBackend):
    name = "frugal"
    compiler = COMPILER
    operators = ("Max", "Min", "Relu", "Clip", "ReduceMax", "ReduceMin", "Add", "Sub", "Mul")
    operators += ("ReduceSum", "Sign", "Abs", "Cast", "Reshape", "Transpose", "Expand")
    dtypes = ("float32", "float64", "int64", "bool")
