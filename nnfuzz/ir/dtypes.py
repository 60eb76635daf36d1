"""Element types of tensors, and what each library calls them."""

from __future__ import annotations

from enum import Enum

import numpy as np


class DType(Enum):
    """Element type of a tensor; the value is its NumPy (and PyTorch) name."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"

    __hash__ = object.__hash__

    def __init__(self, name: str) -> None:
        self.numpy = np.dtype(name)
        self.itemsize = self.numpy.itemsize
        self.is_float = self.numpy.kind == "f"
        self.is_int = self.numpy.kind in "iu"
        self.is_bool = self.numpy.kind == "b"

    @property
    def onnx(self) -> int:
        """The code of `onnx.TensorProto.DataType`."""
        return _ONNX[self.value]

    @property
    def torch(self):
        """The `torch.dtype`; imports torch on first use."""
        import torch

        return getattr(torch, self.value)

    @property
    def unit_roundoff(self) -> float:
        """Half the distance from 1 to the next larger number; 0 for exact types."""
        return float(np.finfo(self.numpy).eps) / 2 if self.is_float else 0.0

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest finite value."""
        if self.is_bool:
            return 0, 1
        info = np.finfo(self.numpy) if self.is_float else np.iinfo(self.numpy)
        return info.min.item() if self.is_float else info.min, (
            info.max.item() if self.is_float else info.max
        )

    @classmethod
    def of(cls, dtype: object) -> DType:
        """The DType of a NumPy dtype, a torch dtype or a name.

        Raises: ValueError for a type nnfuzz does not know.
        """
        return cls(str(dtype).removeprefix("torch."))


_ONNX = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
}

FLOATS = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16)
SIGNED = (DType.INT8, DType.INT16, DType.INT32, DType.INT64)
INTS = (*SIGNED, DType.UINT8)
BOOLS = (DType.BOOL,)
NUMBERS = (*FLOATS, *INTS)
ALL = (*NUMBERS, *BOOLS)
