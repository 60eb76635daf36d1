"""An operator spec's statements on values: its domain, its range, its rounding error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from nnfuzz.ir.types import TensorType
from nnfuzz.operators.typed import ANY_RANGE, Range, meets, per_input

if TYPE_CHECKING:
    from torch import Tensor

    from nnfuzz.operators.intervals import Interval


class Numeric:
    """Ranges for generation, inequalities for the input search, intervals for the oracle."""

    torch: Callable[..., Tensor | Any]
    """See OpSpec."""

    valid: ClassVar[tuple[Range | None, ...]] = ()
    """Per input, the closed range outside of which NaN or Inf appear; None or absent: anything."""

    @per_input
    def domain(self, *tensors: Tensor) -> list[Tensor]:
        """Tensors that must be <= 0 everywhere for the result to be finite. Default: `valid`."""
        terms = []
        for tensor, bounds in zip(tensors, self.valid):
            if bounds is not None:
                lo, hi = bounds
                terms += [lo - tensor] if lo > -math.inf else []
                terms += [tensor - hi] if hi < math.inf else []
        return terms

    @per_input
    def margins(self, *tensors: Tensor) -> list[Tensor]:
        """Distances (>= 0) to the nearest discontinuity. Default: the operator has none."""
        return []

    @per_input
    def integer_range(self, *inputs: TensorType) -> tuple[Range | None, ...]:
        """Per input (concrete types), the closed range its integers must lie in; None: any.

        Only inputs whose pattern says `index` have one: generation feeds them from placeholders
        that nothing else computes, the input search draws their values within the range.
        A shorter tuple stands for None in the rest. Default: no input is restricted.
        """
        return ()

    @per_input
    def value_range(self, *ranges: Range) -> Range:
        """Bounds of every output element, given bounds of the inputs. Default: `within`."""
        return self.within

    @per_input
    def feasible(self, *ranges: Range) -> bool:
        """Whether some values within the ranges give a finite result. Default: by `valid`."""
        for range_, bounds in zip(ranges, self.valid):
            if bounds is not None and not meets(range_, bounds):
                return False
        return True

    @per_input
    def certain(self, *inputs: TensorType) -> tuple[Range, ...]:
        """Ranges that hold some output element each, for all input values.

        Constant padding, for instance, and the least of several probabilities. Dimensions may be
        symbolic; a range that may be certain, depending on them, counts. Default: none.
        """
        return ()

    @per_input
    def further(self, *ranges: Range) -> Sequence[tuple[Range, ...]]:
        """For each output after the first: bounds of all its elements, then narrower ranges, each
        of which holds some of them.

        To be defined where those outputs are of another kind than the first, such as positions.
        Default: empty; then `value_range` and `certain` describe all outputs.
        """
        return ()

    @per_input
    def magnitude(self, *ranges: Range) -> float:
        """Lower bound of |y|, y an element of the first output; 0 (the default) if unknown."""
        return 0.0

    whole: ClassVar[str] = ""
    """When every element of the first output is a whole number: "always"; "kept", if all elements
    of the inputs are; "" if that is unknown."""

    constant: ClassVar[bool] = False
    """Whether the outputs follow from shapes and attributes, for all values of the inputs."""

    copies: ClassVar[bool] = False
    """Whether one input element may become several output elements, as in Expand or Gather."""

    differing: ClassVar[bool] = False
    """Whether inputs with equal elements are invalid: a variance of 0 that is divided by."""

    @per_input
    def demanded(self, *ranges: Range) -> Range | None:
        """The range that a float first input must be in, if gradient descent hardly gets it there.

        It does not where operators in front mix many elements, so generation places this operator
        near placeholders only. None, the default: any input will do.
        """
        return None

    @per_input
    def radius(self, u: float, y: Tensor, *xs: Tensor) -> Tensor | float:
        """Bound of the local rounding error of a correct implementation (docs/rooms/oracle.md).

        u: unit roundoff of the working dtype. y, xs: output and inputs in float64.
        Default: 0, exact (data movement).
        """
        return 0.0

    kinked: ClassVar[bool] = False
    """Whether `radius` is of pieces, so that the end of an interval that is nearer to 0 may have
    the larger one."""

    sharp: ClassVar[bool] = False
    """Whether `torch` is right to a unit in the last place in float64, as elementary functions are
    (SLEEF); else it is taken to be off by `radius` itself."""

    monotone: ClassVar[tuple[int, ...]] = ()
    """Per input, +1 if every output element grows with it, -1 if it falls; the last entry repeats.
    The default `interval` relies on it."""

    exactness: ClassVar[str] = ""
    """When the result has no rounding error at all: "rounded", wherever it is representable in
    the working dtype (+ - * / sqrt); "sum", wherever every term is an integer and their absolute
    values add up to less than 1 / u."""

    joining: ClassVar[str] = ""
    """How compilers make the operator part of a sum that it reads: each input may be such a sum and
    the others a "term" or a "factor" of it; or only the "first", and integers do not stay integers;
    "" if they do not."""

    modular: ClassVar[bool] = False
    """Whether the result of integers modulo 2^n follows from the inputs modulo 2^n: data movement,
    + - * and bitwise operators."""

    within: ClassVar[Range] = ANY_RANGE
    """The range that no correct implementation leaves, not even by a rounding error."""

    @per_input
    def inexact(self, *intervals: Interval) -> Tensor | None:
        """Mask of elements that a correct implementation may round although `exactness` holds.

        Default: None, there are none.
        """
        return None

    @per_input
    def undefined(self, *intervals: Interval) -> Tensor | None:
        """Mask of output elements that ONNX leaves undefined for some inputs in the intervals.

        Out-of-range casts to integers, integer division by zero and the like; values that are not
        finite are masked without it. Default: None, everything is defined.
        """
        return None

    @per_input
    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        """Output intervals that contain every exact result for inputs in the given intervals.

        Default: by `monotone`; without it nothing is known unless every input is exact.
        """
        from nnfuzz.operators.intervals import Interval, ends, opaque, reached

        if not self.monotone:
            return opaque(self, *intervals)
        lo, hi = ends(self.torch, self.monotone, *intervals)
        return [Interval(lo, hi, reached(self, *intervals))]

    @per_input
    def decided(self, u: float, *intervals: Interval) -> Sequence[Interval] | None:
        """`interval` of an operator that rounds before it decides, asked for exact inputs as well.

        Quantisation divides, and a rounding error of the quotient turns a tie over.
        u: the greatest unit roundoff of the inputs' dtypes. Default: None, not such an operator.
        """
        return None
