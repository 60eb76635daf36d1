"""A compiler whose errors all pass through one line of Python, in three layers of another language.

    nnfuzz fuzz --plugin tests/planted/layered.py -b layered --tests 600
    python -m scripts.check.triage CAMPAIGN --truth tests/planted/layered.py

Refusals stand in the innermost layer. One operator has two faults, and one check notices the faults
of two operators. Addresses, threads, names of files and values in messages change.
"""

from __future__ import annotations

import sys
from pathlib import Path
from threading import get_native_id

import numpy as np
from onnx import TensorProto

from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Death, Faults, FaultyBackend, FaultyCompiler

REFUSED, FAULTS = Faults(), Faults()
LAYERS = """Lowering node #{n} "{op}_{n}" {op}\n\nCaused by:
    0: In the pass `declutter` of /tmp/layered-{address:x}/graph-{n}.bin
    1: Applying rule outputs[0] == inputs[{n}]
    2: {statement}"""


def stop(error):
    raise RuntimeError(error)


def fail(site, statement):
    told = {"n": site.index, "op": site.op, "address": id(site), "statement": statement}
    stop(LAYERS.format(**told))


@REFUSED.at(Stage.COMPILE, "Conv", "ConvTranspose", "MaxPool", "AveragePool")
def windows_refused(site):
    """Windows are refused."""
    fail(site, f"{site.op} is not implemented for blocked layouts")


@REFUSED.at(Stage.IMPORT, when=lambda site: site.has(TensorProto.FLOAT16))
def half_refused(site):
    """float16 is refused, whatever the operator."""
    fail(site, "data type F16: not supported by this target")


@FAULTS.at(Stage.COMPILE, "Transpose", when=lambda site: site.rank() < 3)
def permutation_lost(site):
    """One fault of an operator."""
    fail(site, f"no stride of the permuted view {site.index} is known to the planner")


@FAULTS.at(Stage.COMPILE, "Transpose", when=lambda site: site.rank() >= 3)
def planner_full(site):
    """Another fault of the same operator."""
    fail(site, f"slot table of arena {id(site):#x} is full after its last eviction")


@FAULTS.at(Stage.COMPILE, "Expand")
def expanded(site):
    """A check of all operators finds a wrong shape."""
    fail(site, f"output mismatch after rewiring: expected 1,{site.rank()},F32 got 1,F32")


@FAULTS.at(Stage.COMPILE, "Floor", "Ceil")
def rounded(site):
    """The same check finds a wrong dtype."""
    fail(site, f"output mismatch after rewiring: expected {site.rank()},F32 got {site.rank()},I32")


@FAULTS.at(Stage.COMPILE, "Softmax", "LogSoftmax")
def worker_dies(site):
    """A thread dies with an address."""
    text = f"thread {get_native_id()} of pool {id(site):#x}: assertion failed: rows <= lanes"
    raise Death("abort", text)


@FAULTS.kernel("Sqrt", "Log")
def guarded(node, inputs, run):
    """A guard stops at the first value that is not finite, and prints it."""
    values = run()[0].astype(np.float64).ravel()
    for value in values[~np.isfinite(values)]:
        stop(f"Evaluating\n\nCaused by:\n    0: lane guard was hit by the value {value} of it")
    return run()


COMPILER = FaultyCompiler([*REFUSED, *FAULTS], REFUSED)
causes_of = COMPILER.causes_of


@backend
class Layered(FaultyBackend):
    name = "layered"
    compiler = COMPILER
