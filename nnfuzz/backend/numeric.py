"""How outputs compare with PyTorch's, and which numbers a compiler computes with. NumPy only.

The cheap check is whether outputs agree up to a few ULP. It runs in a worker where outputs
need not be sent, and otherwise in the campaign's process. Agreement is final (unless the test case
is sampled for a full verdict); otherwise the envelope decides.

A compiler may compute with other numbers than a model says, everywhere and by habit. Such a habit
is one cause, at whichever operator it shows. nnfuzz.compare.deviating computes the mismatches that
it explains; nnfuzz.triage.survey asks a compiler for its habits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import ml_dtypes
import numpy as np

from nnfuzz.base.writing import as_list
from nnfuzz.ir.dtypes import DType


def agree(expected: Mapping[str, np.ndarray], actual: Mapping[str, np.ndarray]) -> bool:
    """Whether all outputs are close, and their zeros have the same signs, which matters only for
    some inputs: the caller, which knows the inputs, decides where only such signs differ.
    """
    return all(
        name in actual and close(array, actual[name]) and not other_zeros(array, actual[name])
        for name, array in expected.items()
    )


def close(expected: np.ndarray, actual: np.ndarray, ulps: float = 4) -> bool:
    """Whether two arrays agree: discrete ones bit for bit, floats to `ulps` of their dtype.

    NaN agrees with NaN, an infinity with itself.
    """
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return False
    if expected.tobytes() == actual.tobytes():
        return True
    if not DType.of(expected.dtype).is_float:
        return False
    return bool(np.all(_agree(expected, actual, ulps)))


def other_zeros(expected: np.ndarray, actual: np.ndarray) -> bool:
    """Whether a zero of one of two arrays that are close has another sign in the other."""
    if expected.tobytes() == actual.tobytes() or not DType.of(expected.dtype).is_float:
        return False
    zero = (expected == 0) & (actual == 0)
    return bool((zero & (np.signbit(expected) != np.signbit(actual))).any())


def beyond(params: Mapping[str, np.ndarray]) -> bool:
    """Whether some float is NaN, infinite or -0.0, so that the rules for edges apply
    (nnfuzz.compare.edges)."""
    return strange(params) or any((np.signbit(a) & (a == 0)).any() for a in _floats(params))


def strange(values: Mapping[str, np.ndarray]) -> bool:
    """Whether some float is NaN or infinite."""
    return any(not np.isfinite(a).all() for a in _floats(values))


def _floats(values: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
    arrays = (a for a in values.values() if a.size and a.dtype.kind != "U")
    return (a for a in arrays if DType.of(a.dtype).is_float)


def _agree(expected: np.ndarray, actual: np.ndarray, ulps: float) -> np.ndarray:
    info = ml_dtypes.finfo(expected.dtype)
    if expected.dtype != np.float64:
        # Differences near the greatest number overflow in the dtype itself.
        expected, actual = expected.astype(np.float64), actual.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        limit = np.abs(expected) * (ulps * float(info.eps)) + ulps * float(info.smallest_subnormal)
        near = np.abs(expected - actual) <= limit
        near &= np.isfinite(expected)
        return near | (expected == actual) | (np.isnan(expected) & np.isnan(actual))


TF32 = "tf32"
"""float32 with 10 bits of mantissa, for the factors of products that are summed."""
SATURATES = "saturation"
_SATURATES = "saturates where it should wrap around"
NO_NAN = "no NaN"
_IGNORES = "ignores NaN"
FLUSHES = "flushed"
_FLUSHES = "flushes subnormal numbers to 0"
_WAYS = {SATURATES: _SATURATES, NO_NAN: _IGNORES, FLUSHES: _FLUSHES}
BY_DEFAULT = "default"
"""In place of a dtype: `to` is a setting that makes the compiler exact, and not its default."""
_BY_DEFAULT = "accuracy given away by default: right with "


@as_list
@dataclass(frozen=True, order=True)
class Deviation:
    """A habit of a compiler: it computes values of `dtype` as `to` says, which is a narrower dtype,
    TF32, SATURATES, NO_NAN or FLUSHES. If `dtype` is BY_DEFAULT, `to` is the setting that would
    make the compiler exact, and that its users do not have.
    """

    dtype: str
    to: str

    def __str__(self) -> str:
        if self.dtype == BY_DEFAULT:
            return f"{_BY_DEFAULT}{self.to}"
        if self.to in _WAYS:
            return f"{self.dtype} {_WAYS[self.to]}"
        where = " (sums of products)" if self.to == TF32 else ""
        return f"{self.dtype} is computed in {self.to}{where}"

    @classmethod
    def parse(cls, text: str) -> Deviation:
        """The inverse of `str`. Raises: ValueError."""
        if text.startswith(_BY_DEFAULT):
            return cls(BY_DEFAULT, text.removeprefix(_BY_DEFAULT))
        dtype, _, rest = text.partition(" ")
        to = rest.removeprefix("is computed in ").removesuffix(" (sums of products)")
        deviation = cls(dtype, next((way for way, words in _WAYS.items() if words == rest), to))
        if str(deviation) != text:
            raise ValueError(f"{text!r} is no habit of a compiler")
        return deviation

    @property
    def decision(self) -> str:
        """Deviations that go with each other: a compiler saturates all narrow integers or none."""
        return _WAYS.get(self.to, str(self))


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
    *(Deviation(dtype, NO_NAN) for dtype in ("float16", "float32", "float64")),
)
"""The habits that are looked for in every compiler: narrower types that hardware prefers, numbers
in place of truth values, the saturation of SIMD instructions, and comparisons that pass over NaN.
"""
WIDER = (
    *(Deviation(dtype, "float32") for dtype in ("float16", "bfloat16")),
    *(Deviation(dtype, "int32") for dtype in ("int8", "uint8", "int16", "uint16")),
    *(Deviation(dtype, FLUSHES) for dtype in ("float32", "float64")),
)
"""Types that compilers hold in wider ones and return so; and subnormal numbers taken for 0, which
every envelope admits: reported once, as a habit.
"""
