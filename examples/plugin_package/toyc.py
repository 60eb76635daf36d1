"""A stand-in for the compiler that a plug-in is about: a few operators of ONNX, computed by NumPy.

Like many compilers it has tensors of its own (bytes with a type and a shape), computes float64 in
float32, and says by a code what it does not implement. It is wrong in one place: a Min is a Max.
"""

import functools
from typing import Any

import ml_dtypes  # noqa: F401 (NumPy learns bfloat16 and the like from it)
import numpy as np
import onnx
from onnx import helper, numpy_helper

__version__ = "1.0"
KERNELS = {
    "Add": np.add,
    "Identity": np.copy,
    "Less": np.less,
    "MatMul": np.matmul,
    "Min": lambda *xs: functools.reduce(np.maximum, xs),
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "Reshape": lambda x, shape: x.reshape(shape),
    "Sub": np.subtract,
}


class CompileError(RuntimeError):
    """The only error there is."""


class Tensor:
    """Elements as bytes, those of 4 bits in pairs; dtype: a number of onnx.TensorProto."""

    def __init__(self, raw: bytes, dtype: int, shape: Any) -> None:
        self.raw, self.dtype, self.shape = raw, dtype, tuple(shape)

    def array(self) -> np.ndarray:
        proto = onnx.TensorProto(data_type=self.dtype, dims=self.shape, raw_data=self.raw)
        return numpy_helper.to_array(proto)


class Program:
    """A compiled model. device: "cpu" or "npu", which is the same here."""

    def __init__(self, model: bytes, device: str = "cpu") -> None:
        self.graph = onnx.load_model_from_string(model).graph
        for node in self.graph.node:
            if node.op_type not in KERNELS:
                raise CompileError(f"toyc: cannot lower {node.op_type} for {device} (E17)")

    def run(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by name -> tensors by name, of the dtypes that the model declares."""
        values = {name: tensor.array() for name, tensor in tensors.items()}
        values |= {tensor.name: numpy_helper.to_array(tensor) for tensor in self.graph.initializer}
        with np.errstate(all="ignore"):
            for node in self.graph.node:
                operands = map(narrowed, (values[name] for name in node.input))
                values[node.output[0]] = np.asarray(KERNELS[node.op_type](*operands))
        types = {value.name: value.type.tensor_type.elem_type for value in self.graph.output}
        return {name: packed(values[name], dtype) for name, dtype in types.items()}


def narrowed(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == np.float64 else array


def packed(array: Any, dtype: int) -> Tensor:
    array = np.asarray(array, helper.tensor_dtype_to_np_dtype(dtype), order="C")
    return Tensor(numpy_helper.from_array(array).raw_data, dtype, array.shape)
