"""A compiler with two devices and two releases, and faults of which it is known whom to blame.

    nnfuzz fuzz --plugin tests/planted/blamed.py -b blamed -b blamed,device=gpu \\
        -b blamed,release=1.1

Ten faults are the optimiser's (O3 only), ten are kernels' (four on one device, three in one
release, three everywhere), ten the importer's. Ten more corrupt what an exporter wrote. All other
things are right, so a model tells who is to blame by the faults that it meets.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import onnx

from nnfuzz.backend.contract import BackendOptions, option
from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Faults, FaultyBackend, FaultyCompiler, dying

DEVICES, RELEASES, LEVELS = ("cpu", "gpu"), ("1.0", "1.1"), ("O0", "O3")
OPTIMISER, GPU, NEWER, KERNEL, IMPORTER = (Faults() for _ in range(5))
COORDINATES = (
    (OPTIMISER, "pipeline"),
    (GPU, "device"),
    (NEWER, "release"),
    (KERNEL, "compiler"),
    (IMPORTER, "compiler"),
)
"""Faults, and the coordinate that the flip must name."""


def negated(run):
    """The results with their signs changed; integers and truth values inverted bit by bit."""
    return [-x if x.dtype.kind not in "biu" else ~x for x in run()]


# -- the optimiser: wrong at O3 only ------------------------------------------------------------


def fused(second: str, first: str) -> None:
    """Plants a wrong fusion: `second` is negated where it reads a result of `first`."""

    def fusion(node, inputs, run):
        return negated(run) if first in node.feeders else run()

    fusion.__name__ = f"fuses_{first}_{second}".lower()
    fusion.__doc__ = f"{second} after {first} is negated."
    OPTIMISER.kernel(second)(fusion)


for pair in ("Mul Add", "Add Mul", "Relu Sub", "Sub Neg", "Tanh Add"):
    fused(*pair.split())


@OPTIMISER.kernel("Transpose")
def transposes_back(node, inputs, run):
    """A Transpose is replaced by one of reversed axes."""
    return run(perm=None)


@OPTIMISER.kernel("Max")
def folds_max(node, inputs, run):
    """Max becomes its first operand."""
    (found,) = run()
    return [np.broadcast_to(inputs[0], found.shape).copy()]


@OPTIMISER.at(Stage.COMPILE, "Floor")
def fails_on_floor(site):
    """A pass does not know Floor."""
    raise RuntimeError(f"pass Canonicalise: cannot simplify {site.node.outputs[0]} = Floor")


@OPTIMISER.kernel("Exp")
def exponential_by_halves(node, inputs, run):
    """exp is computed in float16."""
    (found,) = run()
    with np.errstate(over="ignore"):
        return [found.astype(np.float16).astype(found.dtype)]


@OPTIMISER.kernel("Concat")
def concat_in_reverse(node, inputs, run):
    """Operands are joined in reverse."""
    return run(*inputs[::-1])


# -- kernels ------------------------------------------------------------------------------------


@GPU.kernel("Sin", "Cos")
def trigonometry_on_gpu(node, inputs, run):
    """Wrong sign."""
    return negated(run)


@GPU.kernel("MatMul")
def product_on_gpu(node, inputs, run):
    """Factors in half precision."""
    if inputs[0].dtype.kind != "f":
        return run()
    with np.errstate(over="ignore"):
        return run(*(x.astype(np.float16).astype(x.dtype) for x in inputs))


@GPU.kernel("ReduceMean")
def mean_on_gpu(node, inputs, run):
    """Divides once more by two."""
    return [(x / 2).astype(x.dtype) for x in run()]


@GPU.kernel("Sqrt")
def root_fails_on_gpu(node, inputs, run):
    """The launch fails."""
    raise RuntimeError("launch of kernel sqrt failed: too many resources requested")


@NEWER.kernel("Sigmoid")
def sigmoid_since_1_1(node, inputs, run):
    """A regression: 1 - sigmoid."""
    return [(1 - x).astype(x.dtype) for x in run()]


@NEWER.kernel("Min")
def min_since_1_1(node, inputs, run):
    """A regression: Min becomes its last operand."""
    (found,) = run()
    return [np.broadcast_to(inputs[-1], found.shape).copy()]


@NEWER.at(Stage.COMPILE, "Ceil")
def ceil_since_1_1(site):
    """A regression: no code for Ceil."""
    raise RuntimeError(f"no schedule for {site.node.outputs[0]} = Ceil")


@KERNEL.kernel("Erf")
def erf_kernel(node, inputs, run):
    """Wrong sign."""
    return negated(run)


@KERNEL.kernel("ReduceMax")
def max_kernel(node, inputs, run):
    """Largest absolute value."""
    x, *rest = inputs
    return run(np.abs(x), *rest) if x.dtype.kind in "if" else run()


@KERNEL.kernel("Log")
def log_kernel(node, inputs, run):
    """A call that fails at run time."""
    raise RuntimeError("log: kernel returned status 3")


# -- the importer: wrong from the beginning -----------------------------------------------------


@IMPORTER.kernel("Softmax", "LogSoftmax")
def axis_unread(node, inputs, run):
    """axis is not read."""
    return run(axis=None)


@IMPORTER.kernel("LeakyRelu", "Elu")
def alpha_unread(node, inputs, run):
    """alpha is not read."""
    return run(alpha=None)


@IMPORTER.kernel("Div")
def operands_swapped(node, inputs, run):
    """Operands of floats come in the wrong order."""
    return run(*inputs[::-1]) if inputs[0].dtype.kind == "f" else run()


@IMPORTER.at(Stage.IMPORT, "Gelu")
def gelu_unread(site):
    """A missing key."""
    raise KeyError("approximate")


@IMPORTER.kernel("Gemm")
def beta_unread(node, inputs, run):
    """alpha and beta are not read."""
    return run(alpha=None, beta=None)


@IMPORTER.kernel("Pad")
def mode_unread(node, inputs, run):
    """mode is not read."""
    return run(mode=None)


@IMPORTER.kernel("CumSum")
def reverse_unread(node, inputs, run):
    """reverse and exclusive are not read."""
    return run(reverse=None, exclusive=None)


@IMPORTER.kernel("Clip")
def bounds_swapped(node, inputs, run):
    """The upper bound is lost."""
    return run(*inputs[:2])


@IMPORTER.at(Stage.IMPORT, "Where")
def where_unread(site):
    """A message of many lines."""
    raise ValueError(f"while importing {site.node.outputs[0]}:\n  in Where:\n  condition is no i1")


@IMPORTER.kernel("TopK")
def largest_unread(node, inputs, run):
    """largest is not read."""
    return run(largest=None)


# -- an exporter --------------------------------------------------------------------------------

Corruption = Callable[[onnx.NodeProto], bool]
EXPORTER: dict[str, tuple[str, Corruption]] = {}
"""What an exporter gets wrong: name -> operator, a change of such a node that says if it did."""


def exports(op: str) -> Callable[[Corruption], Corruption]:
    def register(change: Corruption) -> Corruption:
        EXPORTER[change.__name__] = op, change
        return change

    return register


def swapped(node: onnx.NodeProto) -> bool:
    ends = list(node.input)
    node.input[:2] = ends[1::-1]
    return ends[0] != ends[1]


def dropped(node: onnx.NodeProto, name: str) -> bool:
    kept = [a for a in node.attribute if a.name != name]
    gone = len(kept) < len(node.attribute)
    del node.attribute[:]
    node.attribute.extend(kept)
    return gone


def renamed(node: onnx.NodeProto, op: str) -> bool:
    node.op_type = op
    return True


for name, op, change in (
    ("export_swaps_sub", "Sub", swapped),
    ("export_swaps_pow", "Pow", swapped),
    ("export_swaps_less", "Less", swapped),
    ("export_confuses_sign", "Sign", lambda node: renamed(node, "Relu")),
    ("export_loses_keepdims", "ArgMax", lambda node: dropped(node, "keepdims")),
    ("export_confuses_asin", "Asin", lambda node: renamed(node, "Acos")),
    ("export_confuses_atan", "Atan", lambda node: renamed(node, "Tanh")),
    ("export_confuses_round", "Round", lambda node: renamed(node, "Identity")),
    ("export_confuses_tan", "Tan", lambda node: renamed(node, "Tanh")),
    ("export_confuses_neg", "Neg", lambda node: renamed(node, "Abs")),
):
    EXPORTER[name] = op, change


def badly_exported(model: bytes, name: str) -> bytes | None:
    """The model as the exporter with that fault would write it; None if that is the same."""
    proto = onnx.load_model_from_string(model)
    op, change = EXPORTER[name]
    changed = [change(node) for node in proto.graph.node if node.op_type == op]
    return proto.SerializeToString() if any(changed) else None


# -- the compiler -------------------------------------------------------------------------------


def compiler(device: str, release: str, level: str) -> FaultyCompiler:
    """What runs at a target."""
    faults = [*IMPORTER, *KERNEL]
    faults += GPU if device == "gpu" else []
    faults += NEWER if release == "1.1" else []
    return FaultyCompiler(faults + (OPTIMISER if level == "O3" else []))


def causes_at(model: bytes, inputs, device: str, release: str, level: str) -> set[str]:
    """Ground truth: the faults by which these ONNX bytes fail at a target."""
    proto = onnx.load_model_from_string(model)
    return compiler(device, release, level).causes(proto, inputs)


def coordinate_of(cause: str) -> str:
    """Whom to blame for a fault: a coordinate of targets. Raises: KeyError."""
    return {fault.cause: where for faults, where in COORDINATES for fault in faults}[cause]


@backend
class Blamed(FaultyBackend):
    """One of eight targets."""

    name = "blamed"
    levels = LEVELS

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        device: Literal["cpu", "gpu"] = option("cpu", "where it seems to run")
        release: Literal["1.0", "1.1"] = option("1.0", "which release it pretends to be")

    def versions(self):
        return {"blamed": self.options.release, "onnx": onnx.__version__}

    @property
    def compiler(self):
        return self._at(LEVELS[0])

    def build(self, module, level):
        made = self._at(level)
        dying(made.check, module, Stage.COMPILE)
        return lambda inputs: dying(made.run, module, inputs)

    def _at(self, level):
        return compiler(self.options.device, self.options.release, level)
