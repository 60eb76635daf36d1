"""What an operator spec states about values: valid inputs, bounds of outputs, rounding errors."""

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
    """The reference semantics (`OpSpec.torch`)."""

    valid: ClassVar[tuple[Range | None, ...]] = ()
    """Per input, the closed range outside of which NaN or Inf appear. None, no entry: no limit."""

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
        """Distances (>= 0) of the inputs from the nearest discontinuity. Default: none."""
        return []

    @per_input
    def integer_range(self, *inputs: TensorType) -> tuple[Range | None, ...]:
        """Per input (concrete types), the closed range that its integers must be in; None: any.

        Only inputs with `In.index` may have a range: no node computes them, and the input search
        draws their values within it. Inputs without an entry, the default, have no range.
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
        """Ranges that hold at least one output element each, whatever the inputs are.

        Examples: the 0 of constant padding; the least of n probabilities. Dimensions may be
        symbolic, and a range is listed if it applies for some of their values. Default: none.
        """
        return ()

    @per_input
    def further(self, *ranges: Range) -> Sequence[tuple[Range, ...]]:
        """For each output after the first: bounds of all elements, then narrower ranges, each of
        which holds at least one element.

        To be overridden if those outputs differ in kind from the first, such as positions. Default:
        empty, and `value_range` and `certain` describe all outputs.
        """
        return ()

    @per_input
    def magnitude(self, *ranges: Range) -> float:
        """Lower bound of |y|, y an element of the first output; 0 (the default) if unknown."""
        return 0.0

    whole: ClassVar[str] = ""
    """When every element of the first output is a whole number: "always"; "kept": if all input
    elements are; "": unknown."""

    constant: ClassVar[bool] = False
    """Whether the outputs depend on shapes and attributes only, never on the inputs' values."""

    copies: ClassVar[bool] = False
    """Whether one input element may become several output elements, as in Expand or Gather."""

    differing: ClassVar[bool] = False
    """Whether inputs with equal elements are invalid, since the operator divides by a variance."""

    @per_input
    def demanded(self, *ranges: Range) -> Range | None:
        """The range that a float first input must be in, if gradient descent rarely reaches it.

        Generation then inserts the operator near placeholders only, since operators before it that
        mix many elements make the range harder to reach. Default: None, any input will do.
        """
        return None

    @per_input
    def radius(self, u: float, y: Tensor, *xs: Tensor) -> Tensor | float:
        """Bound of the local rounding error of a correct implementation (docs/rooms/oracle.md).

        u: unit roundoff of the dtype that is computed in. y, xs: output and inputs in float64.
        Default: 0, exact (data movement).
        """
        return 0.0

    kinked: ClassVar[bool] = False
    """Whether `radius` is piecewise, so that the end of an interval nearer to 0 may exceed the
    other."""

    sharp: ClassVar[bool] = False
    """Whether `torch` in float64 has an error of at most 1 ULP, as elementary functions do (SLEEF);
    otherwise its error is assumed to be `radius` for float64."""

    monotone: ClassVar[tuple[int, ...]] = ()
    """Per input, +1 if every output element grows with it, -1 if it falls; the last entry repeats.
    The default `interval` relies on it."""

    exactness: ClassVar[str] = ""
    """When the result has no rounding error. "rounded": if it is representable in the working dtype
    (+ - * / sqrt). "sum": if all terms are integers with absolute values adding up to less than
    1/u."""

    keeps_sign: ClassVar[bool] = False
    """Whether no rounding error changes a sign. So it is where `exactness` is "rounded"."""

    joining: ClassVar[str] = ""
    """How a compiler may merge the operator into a sum that it reads. "term", "factor": any input
    may be the sum, and the other inputs are added to it or multiplied into it. "first": only the
    first input may be the sum, and its integers do not stay integers. "": it cannot be merged."""

    modular: ClassVar[bool] = False
    """Whether the result of integers modulo 2^n depends only on the inputs modulo 2^n: data
    movement, + - * and bitwise operators."""

    within: ClassVar[Range] = ANY_RANGE
    """A range that no correct implementation leaves, even by a rounding error."""

    @per_input
    def inexact(self, *intervals: Interval) -> Tensor | None:
        """Mask of elements that may be rounded although `exactness` says otherwise."""
        return None

    @per_input
    def undefined(self, *intervals: Interval) -> Tensor | None:
        """Mask of output elements that ONNX leaves undefined for some inputs in the intervals.

        Examples: casts to integers that do not fit, integer division by zero. Non-finite values are
        masked without it. Default: None, all elements are defined.
        """
        return None

    @per_input
    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        """Output intervals that contain every exact result for inputs in the given intervals.

        Default: by `monotone`; without it, results are known for exact inputs only.
        """
        from nnfuzz.operators.intervals import Interval, ends, opaque, reached

        if not self.monotone:
            return opaque(self, *intervals)
        lo, hi = ends(self.torch, self.monotone, *intervals)
        return [Interval(lo, hi, reached(self, *intervals))]

    @per_input
    def decided(self, u: float, *intervals: Interval) -> Sequence[Interval] | None:
        """Output intervals of an operator that rounds an intermediate result and then decides.

        Example: quantisation, where a rounding error of the quotient moves it across a tie. Called
        for exact inputs, too. u: greatest unit roundoff of the inputs' dtypes. Default: None, use
        `interval`.
        """
        return None
