"""An immature compiler: forty operators are wrong, missing or aborting, for 25 causes.

    nnfuzz fuzz --plugin tests/planted/immature.py -b immature,timeout=5 --time 5m
    python -m scripts.check.triage CAMPAIGN --truth tests/planted/immature.py

All else is right. Some causes hit several operators that share code, three hit a dtype of every
operator. Messages name values, nodes, shapes, counters and addresses, as those of compilers do.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
from onnx import TensorProto

from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Death, Faults, FaultyBackend, FaultyCompiler

FAULTS = Faults()
COUNTER = itertools.count(4711)
BLOCK = """\
Exception from src/immature/core/session.cpp:{line}:
Check 'converted' failed at src/immature/frontends/onnx/src/translate.cpp:{line}:
While converting node '{name}' (#{index}, context {address:#x}):
FrontEnd API failed with OpConversionFailure:
{cause}
"""


def in_session(site, cause):
    """An error of many lines, of which the last tells the cause."""
    return BLOCK.format(
        line=100 + site.index,
        name=site.node.outputs[0],
        index=next(COUNTER),
        address=id(site),
        cause=cause,
    )


@FAULTS.at(Stage.IMPORT, "Celu", "Elu", "Selu", "ThresholdedRelu")
def activation_missing(site):
    """A table of activations lacks four."""
    raise KeyError(site.op)


@FAULTS.at(Stage.IMPORT, "HardSwish", "Mish")
def gate_missing(site):
    """Gated activations are not converted."""
    raise RuntimeError(f"gate table: entry of {site.op} is empty ({site.node.outputs[0]})")


@FAULTS.at(Stage.IMPORT, "DepthToSpace", "SpaceToDepth")
def blocks_refused(site):
    """Blocks are refused, whatever their size."""
    raise RuntimeError(in_session(site, "block layout was not propagated"))


@FAULTS.at(Stage.IMPORT, "Unique")
def unique_refused(site):
    """The same preamble, another cause."""
    raise RuntimeError(in_session(site, "output with data-dependent size has no bound"))


@FAULTS.at(Stage.IMPORT, "GatherND", "ScatterND")
def index_check(site):
    """A check of indices compares the wrong sizes; the numbers are those of the model."""
    rank = site.rank()
    raise ValueError(f"Check failed: last < rank ({rank + 7} vs. {rank}) for {site.node.inputs[1]}")


@FAULTS.at(Stage.IMPORT, when=lambda site: site.has(TensorProto.UINT16))
def uint16_unknown(site):
    """No operator takes uint16."""
    raise TypeError(f"cannot map dtype uint16 of node_{site.index} to an internal type")


@FAULTS.at(Stage.IMPORT, "If", "Loop", "Scan")
def capture_lost(site):
    """Values of bodies are looked up in the wrong scope; the message is their name."""
    raise KeyError(site.node.outputs[0])


@FAULTS.at(Stage.IMPORT, "Squeeze", "Unsqueeze", when=lambda site: site.rank() > 2)
def axes_normalised_twice(site):
    """From rank 3 on, axes are normalised twice."""
    raise ValueError(f"axis {site.rank() + 1} is out of bounds for array of rank {site.rank()}")


@FAULTS.at(Stage.COMPILE, "ReduceLogSum", "ReduceLogSumExp")
def log_sum_asserts(site):
    """An assertion of C, then abort."""
    text = "immature: kernels/reduce.cc:123: void log_sum(int): Assertion `axis < rank' failed."
    raise Death("abort", text)


@FAULTS.at(Stage.COMPILE, "GRU", "LSTM", "RNN")
def recurrent_segfaults(site):
    """All recurrent cells crash."""
    raise Death("segfault")


@FAULTS.at(Stage.COMPILE, "BitShift")
def shift_divides(site):
    """A division by zero in the compiler."""
    raise Death("division")


@FAULTS.at(Stage.COMPILE, "Hardmax")
def hardmax_hangs(site):
    """The scheduler never ends."""
    raise Death("hang")


@FAULTS.at(Stage.COMPILE, "LpPool")
def pool_checks(site):
    """A fatal check in the manner of glog, with date, process and numbers, then abort."""
    n = next(COUNTER)
    text = (
        f"F1122 03:{n % 60:02}:01.{n:06} {n} pool.cc:88] Check failed: n == {n} ({n - 1} vs. {n})"
    )
    raise Death("abort", text)


@FAULTS.at(Stage.COMPILE, "OneHot")
def one_hot_allocates(site):
    """Asks for too much memory, and says so."""
    raise MemoryError("std::bad_alloc")


@FAULTS.at(Stage.COMPILE, "Xor")
def xor_asserts(site):
    """A bare assertion: an error without any message."""
    raise AssertionError


@FAULTS.kernel("ReduceSum", "ReduceMean", "ReduceProd")
def no_axes_left(node, inputs, run):
    """Without keepdims, the kernel looks for an axis that is gone."""
    if node.attrs.get("keepdims", 1) == 0:
        raise IndexError("tuple index out of range")
    return run()


@FAULTS.kernel("Sin")
def sine_negated(node, inputs, run):
    """-sin x."""
    return [-x for x in run()]


@FAULTS.kernel("ReduceMax", "ReduceMin")
def extremes_keep_dims(node, inputs, run):
    """keepdims is ignored: the shape is wrong."""
    return run(keepdims=1)


@FAULTS.kernel("IsInf", "IsNaN")
def predicate_int8(node, inputs, run):
    """int8 instead of bool."""
    return [x.astype(np.int8) for x in run()]


@FAULTS.kernel("Add", "Sub", "Mul")
def small_integers_saturate(node, inputs, run):
    """Integers of 8 and 16 bits stop at their limits instead of wrapping."""
    dtype = inputs[0].dtype
    if dtype.kind not in "iu" or dtype.itemsize > 2:
        return run()
    wide = [x.astype(np.int64) for x in inputs]
    found = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[node.op](*wide)
    limits = np.iinfo(dtype)
    return [np.clip(found, limits.min, limits.max).astype(dtype)]


def cast(values, old, new):
    """The arrays of dtype `old` in `new`; other values as they are."""
    return [x.astype(new) if isinstance(x, np.ndarray) and x.dtype == old else x for x in values]


@FAULTS.kernel()
def double_in_float(node, inputs, run):
    """Every operator computes float64 in float32."""
    if not any(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in inputs):
        return run()
    outputs = run()
    if node.op in ("Cast", "CastLike") or any(isinstance(x, list) for x in (*inputs, *outputs)):
        return outputs
    found = run(*cast(inputs, np.float64, np.float32))
    return [
        y.astype(x.dtype) if x is not None and x.dtype == np.float64 else y
        for x, y in zip(outputs, found)
    ]


@FAULTS.kernel()
def int64_in_int32(node, inputs, run):
    """Every operator that reads int64 keeps the low 32 bits of its int64 results."""
    outputs = run()
    if not any(isinstance(x, np.ndarray) and x.dtype == np.int64 for x in inputs):
        return outputs
    whole = [isinstance(x, np.ndarray) and x.dtype == np.int64 for x in outputs]
    return [x.astype(np.int32).astype(np.int64) if w else x for x, w in zip(outputs, whole)]


@FAULTS.kernel("Pow")
def power_of_negative(node, inputs, run):
    """exp(y log x): NaN for negative bases."""
    (found,) = run()
    if found.dtype.kind != "f" and found.dtype != ml_dtypes.bfloat16:
        return [found]
    return [np.where(inputs[0].astype(np.float64) < 0, found.dtype.type(np.nan), found)]


@FAULTS.kernel("Round")
def half_rounded_up(node, inputs, run):
    """Halves go up instead of to even."""
    (found,) = run()
    return [np.floor(inputs[0].astype(np.float64) + 0.5).astype(found.dtype)]


@FAULTS.kernel("LayerNormalization", "InstanceNormalization", "GroupNormalization")
def epsilon_ignored(node, inputs, run):
    """epsilon is always 1e-5, the default."""
    return run(epsilon=1e-5)


COMPILER = FaultyCompiler(FAULTS)
causes_of = COMPILER.causes_of


@backend
class Immature(FaultyBackend):
    name = "immature"
    compiler = COMPILER
