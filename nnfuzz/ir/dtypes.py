"""Element types of tensors, and their names in each library."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from torch import dtype as TorchDType

_CARRIERS = {
    "uint16": "int32",
    "uint32": "int64",
    "uint64": "int64",
    "int4": "int8",
    "uint4": "uint8",
    "float8_e4m3fn": "float32",
    "float8_e5m2": "float32",
    "float8_e4m3fnuz": "float32",
    "float8_e5m2fnuz": "float32",
}

_ONNX = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "bfloat16": 16,
    "float8_e4m3fn": 17,
    "float8_e4m3fnuz": 18,
    "float8_e5m2": 19,
    "float8_e5m2fnuz": 20,
    "uint4": 21,
    "int4": 22,
}


def _limits(dtype: np.dtype, is_float: bool) -> tuple[float, float]:
    if dtype == np.bool_:
        return 0, 1
    if is_float:
        numbers = ml_dtypes.finfo(dtype)
        return float(numbers.min), float(numbers.max)
    integers = ml_dtypes.iinfo(dtype)
    return int(integers.min), min(int(integers.max), (1 << 63) - 1)


class DType(Enum):
    """Element type of a tensor; the value is its name in NumPy or ml_dtypes (and PyTorch)."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    INT4 = "int4"
    UINT4 = "uint4"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT8_E4M3FNUZ = "float8_e4m3fnuz"
    FLOAT8_E5M2FNUZ = "float8_e5m2fnuz"

    __hash__ = object.__hash__

    def __init__(self, name: str) -> None:
        self.text = name
        """`Enum.value` as a plain attribute, since the descriptor of `Enum.value` is slow."""
        self.numpy = np.dtype(name)
        self.native = self.numpy.isbuiltin == 1
        """Whether the dtype is NumPy's own; the others come from ml_dtypes."""
        self.itemsize = self.numpy.itemsize
        self.is_bool = name == "bool"
        self.is_float = "float" in name
        self.is_int = not self.is_bool and not self.is_float
        self.carrier: str = _CARRIERS.get(name, name)
        """Name of the dtype in which PyTorch holds the values: the same, or a wider one where
        PyTorch has few kernels (see nnfuzz.operators.carriers)."""
        self.carried = self.carrier != name
        """Whether PyTorch holds values of this dtype in a wider one."""
        self.onnx = _ONNX[name]
        """The code of `onnx.TensorProto.DataType`."""
        self.unit_roundoff = float(ml_dtypes.finfo(self.numpy).eps) / 2 if self.is_float else 0.0
        """Half the distance from 1 to the next larger number; 0 for exact types."""
        self.limits: tuple[float, float] = _limits(self.numpy, self.is_float)
        """Smallest and largest finite value; for uint64 the largest value of its carrier."""

    @property
    def torch(self) -> TorchDType:
        """The `torch.dtype` of the carrier; imports torch on first use."""
        import torch

        dtype: TorchDType = getattr(torch, self.carrier)
        return dtype

    def holds(self, number: float) -> bool:
        """Whether a number is within the limits, and whole if the dtype has no fractions."""
        lo, hi = self.limits
        return lo <= number <= hi and (self.is_float or number == int(number))

    @classmethod
    def of(cls, dtype: object) -> DType:
        """The DType of a NumPy dtype, of a torch dtype of the same name, or of a name.

        Raises: ValueError for a type nnfuzz does not know.
        """
        if dtype in _OF_NUMPY:
            return _OF_NUMPY[dtype]  # type: ignore[index]
        return cls(str(dtype).removeprefix("torch."))


_OF_NUMPY = {dtype.numpy: dtype for dtype in DType}

# Operators list the groups that any opset admits; nnfuzz.check.versions excludes what an opset does
# not admit for an operator.
FLOATS = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16)
SIGNED = (DType.INT8, DType.INT16, DType.INT32, DType.INT64)
UNSIGNED = (DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64)
INTS = (*SIGNED, *UNSIGNED)
BOOLS = (DType.BOOL,)
NUMBERS = (*FLOATS, *INTS)
FLOAT8S = (
    DType.FLOAT8_E4M3FN,
    DType.FLOAT8_E5M2,
    DType.FLOAT8_E4M3FNUZ,
    DType.FLOAT8_E5M2FNUZ,
)
INT4S = (DType.INT4, DType.UINT4)
ALL = (*NUMBERS, *BOOLS, *FLOAT8S, *INT4S)


def is_floating(array: np.ndarray) -> bool:
    """Whether an array holds floats, including those of ml_dtypes."""
    return array.dtype.kind == "f" or (array.dtype.kind == "V" and DType.of(array.dtype).is_float)


def held(numbers: np.ndarray, dtype: DType) -> np.ndarray:
    """Mask of the numbers that a numeric dtype represents exactly."""
    if dtype.is_int:
        limits = ml_dtypes.iinfo(dtype.numpy)
        whole = plain(numbers)
        return np.asarray((whole >= int(limits.min)) & (whole <= int(limits.max)))
    with np.errstate(all="ignore"):
        there = numbers.astype(dtype.numpy).astype(np.float64)
        return np.asarray(there.astype(numbers.dtype) == numbers)


def plain(array: np.ndarray) -> np.ndarray:
    """The same numbers in a dtype of NumPy: float64 or int64 for those of ml_dtypes."""
    dtype = DType.of(array.dtype)
    if dtype.native:
        return array
    return array.astype(np.float64 if dtype.is_float else np.int64)
