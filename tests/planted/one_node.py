"""A compiler that computes one node of a model wrong when it optimises, and is right otherwise.

    nnfuzz check mine.onnx --plugin tests/planted/one_node.py -b one-node,fault=half,value=y

The node is the one that computes the value, in any model that has it. The faults are those that
kernels of real compilers have had: an attribute that is not read, operands or sides in another
order, a narrower or cheaper computation.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from nnfuzz.backend.contract import Backend, BackendOptions, option
from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Faults
from tests.planted.nodewise import Interpreter, Node, Value, arrays, right

KERNELS = Faults()
"""A fault's function gets the node, its inputs, and `run`, which computes it right."""


def plant(name: str, text: str, *ops: str, change: Any = None, **attributes: Any) -> None:
    """Plants a kernel that has other attributes than the node, or whose results are changed."""

    def act(node, inputs, run):
        found = map(np.asarray, run(**attributes))
        return [np.asarray(change(y)).astype(y.dtype) if change else y for y in found]

    act.__name__, act.__doc__ = name, text
    KERNELS.kernel(*ops)(act)


def in_dtype(dtype: type) -> Any:
    return lambda y: y.astype(dtype)


plant("pads_at_the_end", "All padding comes behind.", "Conv", pads=[0, 0, 2, 2])
plant("default_alpha", "alpha is not read.", "HardSigmoid", alpha=None)
plant("epsilon", "epsilon is a constant of 0.001.", "LayerNormalization", epsilon=1e-3)
plant("tanh_gelu", "Gelu by tanh in place of erf.", "Gelu", approximate="tanh")
plant("axis_in_front", "The axis in front of the last.", "Softmax", axis=-2)
plant("reset_first", "linear_before_reset is not read.", "GRU", linear_before_reset=0)
plant("columns_first", "mode is not read.", "DepthToSpace", mode="DCR")
plant(
    "corners",
    "Sampling begins at the corner.",
    "Resize",
    coordinate_transformation_mode="asymmetric",
)
plant("dense", "dilations are not read.", "Conv", dilations=[1], pads=[1, 1])
plant("flat_window", "The first axis of a window is 1.", "MaxPool", kernel_shape=[1, 2, 2])
plant("exclusive", "A sum without the element itself.", "CumSum", exclusive=1)
plant("off_by_a_thousandth", "Off by a thousandth.", "Conv", "Exp", change=lambda y: y * 1.001)
plant("half", "Computed in float16.", "Sigmoid", "MatMul", change=in_dtype(np.float16))
plant("reciprocal_of_12_bits", "12 bits are right.", "Div", change=lambda y: y * (1 + 2.0**-12))
plant("descending", "Sorted the other way.", "TopK", change=lambda y: y[..., ::-1])


@KERNELS.kernel("Gemm", "Conv")
def missing_bias(node, inputs, run):
    """The bias is not added."""
    return run(*inputs[:2])


@KERNELS.kernel("Concat", "Sub", "Div")
def swapped(node, inputs, run):
    """The operands in the other order."""
    return run(*inputs[::-1])


@KERNELS.kernel("Where")
def inverted(node, inputs, run):
    """The other one is chosen."""
    return run(inputs[0], inputs[2], inputs[1])


@KERNELS.kernel("Erf")
def cheap_erf(node, inputs, run):
    """A polynomial inside of tanh."""
    (x,) = inputs
    return [np.tanh(1.1283792 * x * (1 + 0.08943 * x * x)).astype(x.dtype)]


@KERNELS.kernel("LSTM")
def gates(node, inputs, run):
    """The output gate's weights are those of the forget gate, and the other way round."""
    x, w, *rest = inputs
    i, o, f, c = np.split(w, 4, 1)
    return run(x, np.concatenate([i, f, o, c], 1), *rest)


@KERNELS.kernel("InstanceNormalization")
def unbiased(node, inputs, run):
    """The variance is divided by n - 1."""
    x, scale, bias = inputs
    n = x[0, 0].size
    return run(x, scale * np.float32(((n - 1) / n) ** 0.5), bias)


@KERNELS.kernel("ConvTranspose")
def unflipped(node, inputs, run):
    """The kernel is not turned round."""
    return run(inputs[0], inputs[1][..., ::-1, ::-1].copy(), *inputs[2:])


@KERNELS.kernel("QuantizeLinear")
def truncated(node, inputs, run):
    """Rounded towards zero."""
    x, scale, *rest = inputs
    return run((np.trunc(x / scale) * scale).astype(x.dtype), scale, *rest)


@KERNELS.kernel("ArgMax")
def least(node, inputs, run):
    """The least element is taken."""
    return run(-inputs[0])


@KERNELS.kernel("Gather")
def one_less(node, inputs, run):
    """The last row is the one in front of it."""
    return run(inputs[0], np.minimum(inputs[1], inputs[0].shape[node.attrs.get("axis", 0)] - 2))


@KERNELS.kernel("ReduceMean")
def other_axis(node, inputs, run):
    """The last axis in place of the one in front, where that has as many elements."""
    return run(np.swapaxes(inputs[0], -1, -2).copy(), *inputs[1:])


@KERNELS.kernel("Pad")
def other_side(node, inputs, run):
    """What belongs in front comes behind."""
    pads = inputs[1]
    return run(
        inputs[0], np.concatenate([pads[len(pads) // 2 :], pads[: len(pads) // 2]]), *inputs[2:]
    )


@KERNELS.kernel("Cast")
def to_nearest(node, inputs, run):
    """Integers are the nearest ones."""
    return run(np.rint(inputs[0]))


@backend
class OneNode(Backend):
    """ONNX Runtime and onnx.reference, node by node, with one fault at O3."""

    name = "one-node"
    levels = ("O0", "O3")
    preload = ("onnxruntime", "onnx.reference")
    max_opset = 26

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        fault: str = option("", "what is wrong, a function of tests/planted/one_node.py")
        value: str = option("", "which value is wrong")

    def versions(self) -> dict[str, str]:
        return {"one-node": "1"}

    def load(self, model: bytes) -> onnx.ModelProto:
        return onnx.load_model_from_string(model)

    def build(self, module: onnx.ModelProto, level: str) -> Any:
        return Interpreter(module, right if level == "O0" else self._call)

    def _call(self, node: Node, inputs: Sequence[Value]) -> Sequence[Value]:
        if self.options.value not in node.outputs:
            return right(node, inputs)
        fault = next(f for f in KERNELS if f.cause == self.options.fault)

        def run(*xs: Value, **attributes: Any) -> Sequence[Value]:
            return node(*(xs or inputs), **attributes)

        return [arrays(x) for x in fault.act(node, inputs, run)]
