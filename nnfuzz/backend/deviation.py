"""How a compiler may compute with other numbers than a model says, everywhere and by habit.

Such a habit is one cause, at whichever operator it shows. The mismatches that it explains are
computed: see nnfuzz.compare.deviating for whole graphs, nnfuzz.triage.survey for how a compiler is
asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from nnfuzz.base.writing import as_list
from nnfuzz.ir.dtypes import DType

TF32 = "tf32"
"""float32 with 10 bits of mantissa, for the factors of products that are summed."""
SATURATES = "saturation"
_SATURATES = "saturates where it should wrap around"


@as_list
@dataclass(frozen=True, order=True)
class Deviation:
    """Values of `dtype` are computed as `to`: a narrower dtype, TF32, or with SATURATES."""

    dtype: str
    to: str

    def __str__(self) -> str:
        if self.to == SATURATES:
            return f"{self.dtype} {_SATURATES}"
        where = " (sums of products)" if self.to == TF32 else ""
        return f"{self.dtype} is computed in {self.to}{where}"

    @classmethod
    def parse(cls, text: str) -> Deviation:
        """The inverse of `str`. Raises: ValueError."""
        dtype, _, rest = text.partition(" ")
        to = rest.removeprefix("is computed in ").removesuffix(" (sums of products)")
        deviation = cls(dtype, SATURATES if rest == _SATURATES else to)
        if str(deviation) != text:
            raise ValueError(f"{text!r} is no habit of a compiler")
        return deviation

    @property
    def decision(self) -> str:
        """Deviations that go with each other: a compiler saturates all narrow integers or none."""
        return _SATURATES if self.to == SATURATES else str(self)


Habits = Sequence[Deviation]
"""The habits of one compiler."""
NO_HABITS: Mapping[str, Habits] = MappingProxyType({})
"""The habits of all backends, by label, where none are known."""
CONSIDERED = (
    Deviation("float64", "float32"),
    Deviation("float32", "bfloat16"),
    Deviation("float32", "float16"),
    Deviation("float32", TF32),
    Deviation("float16", "bfloat16"),
    Deviation("int64", "int32"),
    Deviation("uint64", "uint32"),
    Deviation("uint64", "int64"),
    Deviation("uint64", "int32"),
    Deviation("uint32", "int32"),
    Deviation("int64", "float32"),
    Deviation("int64", "float64"),
    *(Deviation("bool", to) for to in ("uint8", "int8", "int32", "int64", "float32")),
    *(Deviation(d.value, SATURATES) for d in (DType.INT8, DType.UINT8, DType.INT16, DType.INT32)),
)
"""The habits that are looked for in every compiler: narrower types that hardware prefers, numbers
in place of truth values, and the saturation of SIMD instructions.
"""
