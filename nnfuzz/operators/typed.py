"""The types of an operator: admitted inputs, outputs, and input types for backward insertion."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self, TypeVar

from nnfuzz.ir.dtypes import ALL, DType
from nnfuzz.ir.expr import Bool, BoolExpr
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Attributed, Choice
from nnfuzz.operators.draw import Draw

Range = tuple[float, float]
ANY_RANGE: Range = (-math.inf, math.inf)
ROOM = 1e-3
"""The least overlap of two ranges with which a search can hit values inside both."""

DEEPEST = 10
"""The greatest rank of tensors in imported models."""

R = TypeVar("R")


def per_input(method: Callable[..., R]) -> Callable[..., R]:
    """Marks a method of the contract that takes one argument per input of the operator.

    Overrides name the inputs, as in `def torch(self, x, weight)`; type checkers accept any number.
    """
    return method


def meets(range_: Range, bounds: Range) -> bool:
    """Whether a range lies inside `bounds`, or overlaps with them by at least `ROOM`."""
    (lo, hi), (least, most) = range_, bounds
    return least <= lo <= hi <= most or min(hi, most) - max(lo, least) >= ROOM


@dataclass(frozen=True)
class In:
    """Pattern of one input.

    var: name of the type variable; inputs with the same variable have the same dtype. dtypes: those
    that the variable may have (only the first pattern of a variable counts). ranks: inclusive range
    of generated ranks. weight: the input is usually a parameter of the model, so usually a fresh
    placeholder (a value that no node computes). index: its values are limited by a shape (see
    `integer_range`), so it is always a fresh placeholder. narrow: few values are valid (scales of
    quantisation), so it is always a fresh placeholder, too.
    """

    var: str = "T"
    dtypes: tuple[DType, ...] = ALL
    ranks: tuple[int, int] = (0, 5)
    weight: bool = False
    index: bool = False
    narrow: bool = False

    def ranked(self, rank: int) -> bool:
        """Whether generation may use a tensor of that rank here."""
        return self.ranks[0] <= rank <= self.ranks[1]

    @property
    def deepest(self) -> int:
        """The greatest rank in imported models, which is higher than in generated ones."""
        return DEEPEST if self.ranks[0] <= 2 and self.ranks[1] >= 4 else self.ranks[1]

    @property
    def fresh(self) -> bool:
        """Whether the input must be a placeholder, which no node computes."""
        return self.index or self.narrow


MOST = 1 << 12
"""The most inputs of a variadic operator in an imported model."""
Place = tuple[str, int]
"""A file, and a line number in it."""
KEPT = 1 << 12
"""Cache size: how many classes (per number of inputs) keep their patterns."""


class ConstraintError(ValueError):
    """Inputs or attributes that do not satisfy an operator's patterns or `requires`.

    place: file and line of the violated condition in `requires`; None for a pattern.
    """

    def __init__(self, text: str, place: Place | None = None) -> None:
        super().__init__(text)
        self.place = place


class Typed(Attributed):
    """The typing rules of an operator: patterns, `requires` and `type_transfer`.

    inputs: the input patterns. variadic: least and greatest number of inputs, if the last pattern
    may repeat. output: a type variable, a DType, or the name of an attribute that holds a DType.
    """

    inputs: ClassVar[tuple[In, ...]] = (In(),)
    variadic: ClassVar[tuple[int, int] | None] = None
    output: ClassVar[str | DType] = "T"

    takes_empty: ClassVar[bool] = False
    """Whether inputs and outputs may be empty, with a dimension of 0.

    `torch`, `interval` and `domain` must then accept such tensors; `ops check` compares with ONNX.
    """

    @classmethod
    @lru_cache(maxsize=KEPT)
    def patterns(cls, count: int) -> tuple[In, ...]:
        """The input patterns for `count` inputs."""
        inputs = cls.inputs
        if count == len(inputs):
            return inputs
        return (inputs + (inputs[-1],) * (count - len(inputs)))[:count]

    @classmethod
    @lru_cache(maxsize=KEPT)
    def arity(cls) -> tuple[int, int]:
        """The least and greatest number of inputs."""
        return cls.variadic or (len(cls.inputs), len(cls.inputs))

    @classmethod
    @lru_cache(maxsize=KEPT)
    def most_inputs(cls) -> int:
        """The greatest number of inputs in imported models; generated ones have fewer."""
        most = cls.arity()[1]
        return MOST if most > len(cls.inputs) else most

    @classmethod
    @lru_cache(maxsize=KEPT)
    def reads_indices(cls) -> bool:
        """Whether some inputs hold indices."""
        return any(pattern.index for pattern in cls.inputs)

    @classmethod
    def bound(cls) -> dict[str, int]:
        """Per type variable, the position of the first required input that has it.

        The dtypes of these inputs name a signature, so optional inputs do not change it.
        """
        first: dict[str, int] = {}
        for position, pattern in enumerate(cls.inputs[: max(1, cls.arity()[0])]):
            first.setdefault(pattern.var, position)
        return first

    @classmethod
    def signatures(cls) -> list[tuple[dict[str, DType], DType]]:
        """All combinations of dtypes: (dtype by type variable, dtype of the output)."""
        domains: dict[str, tuple[DType, ...]] = {}
        for pattern in cls.inputs:
            domains.setdefault(pattern.var, pattern.dtypes)
        signatures = []
        for combo in itertools.product(*domains.values()):
            binding = dict(zip(domains, combo))
            signatures += [(binding, out) for out in cls._output_dtypes(binding)]
        return signatures

    @classmethod
    def _output_dtypes(cls, binding: Mapping[str, DType]) -> Sequence[DType]:
        if isinstance(cls.output, DType):
            return (cls.output,)
        if cls.output in binding:
            return (binding[cls.output],)
        declared = cls.declared[cls.output]
        return declared.options if isinstance(declared, Choice) else ()  # type: ignore[return-value]

    @per_input
    def output_dtype(self, *inputs: TensorType) -> DType:
        """The dtype of the (first) output."""
        position = self._followed(len(inputs))
        if position is not None:
            return inputs[position].dtype
        return self.output if isinstance(self.output, DType) else getattr(self, self.output)

    @classmethod
    @lru_cache(maxsize=KEPT)
    def _followed(cls, count: int) -> int | None:
        """The position of the first input whose type variable is that of the output, if any."""
        variables = [pattern.var for pattern in cls.patterns(count)]
        return variables.index(cls.output) if cls.output in variables else None

    @classmethod
    @lru_cache(maxsize=KEPT)
    def _admitted(cls, count: int) -> tuple[tuple[str, tuple[DType, ...], int, int], ...]:
        """Per input: its type variable, the dtypes of that variable, least and greatest rank."""
        dtypes = {pattern.var: pattern.dtypes for pattern in reversed(cls.inputs)}
        return tuple((p.var, dtypes[p.var], p.ranks[0], p.deepest) for p in cls.patterns(count))

    @per_input
    def requires(self, *inputs: TensorType) -> Iterable[Bool]:
        """Conditions under which the operator is defined; dtypes and ranks are checked before.

        It must be pure: no random choices, no environment, no change of `self`.
        """
        return ()

    @per_input
    def type_transfer(self, *inputs: TensorType) -> list[TensorType]:
        """The output types, given inputs that satisfy `requires`. Default: as the first input."""
        return [TensorType(self.output_dtype(*inputs), inputs[0].shape)]

    def complete(self, draw: Draw, first: TensorType, dtypes: Sequence[DType]) -> list[TensorType]:
        """Types for all inputs, given the first, with which `requires` is likely to hold.

        They become fresh placeholders. dtypes: one per input. Default: fresh dimensions, with the
        rank of the first input if the pattern admits it.
        """
        types = [first]
        for pattern, dtype in zip(self.patterns(len(dtypes))[1:], dtypes[1:]):
            lo, hi = pattern.ranks
            types.append(draw.tensor(dtype, min(max(first.rank, lo), hi)))
        return types

    @classmethod
    def input_rank(cls, draw: Draw, output_rank: int) -> int | None:
        """A rank of the first input that gives the output this rank; None if there is none."""
        return output_rank

    def infer_input_types(
        self, draw: Draw, first: TensorType, dtypes: Sequence[DType], output: TensorType
    ) -> list[TensorType]:
        """Input types with which the operator can yield `output` (backward insertion).

        first: type of the first input with fresh dimensions, for which the attributes were drawn.
        The engine then requires `type_transfer` of the result to equal `output`, so a guess will
        do, but an exact answer saves solver calls. Default: the sizes of `output` along axes that
        `type_transfer` keeps, those of `first` along others.
        """
        types = self.complete(draw, first, dtypes)
        sizes = self.type_transfer(*types)[0].shape
        if not len(sizes) == first.rank == output.rank:
            return types
        triples = list(zip(sizes, first.shape, output.shape))
        if not any(size is have for size, have, _ in triples):
            return types
        shape = tuple(want if size is have else have for size, have, want in triples)
        return self.complete(draw, first.with_shape(shape), dtypes)

    def without_input(self, position: int) -> Self | None:
        """The operator without one input, or None if it needs that. Default: as `variadic` says.

        `check` tells whether the remaining inputs are enough.
        """
        return self if self.variadic and position > 0 else None

    def check(self, *inputs: TensorType) -> None:
        """Check concrete inputs against the patterns and `requires`.

        Raises: ConstraintError that names the operator and the condition.
        """
        count, lo, hi = len(inputs), self.arity()[0], self.most_inputs()
        if not lo <= count <= hi:
            raise ConstraintError(f"{self!r} takes {lo} to {hi} inputs, got {count}")
        bound: dict[str, DType] = {}
        for i, ((var, dtypes, least, most), type_) in enumerate(zip(self._admitted(count), inputs)):
            dtype, rank = type_.dtype, len(type_.shape)
            if var not in bound:
                bound[var] = dtype
            if bound[var] is not dtype or dtype not in dtypes:
                raise ConstraintError(f"{self!r}: input {i} may not be {type_!r}")
            if not least <= rank <= most:
                raise ConstraintError(f"{self!r}: input {i} may not have rank {rank}")
            if not self.takes_empty and type_.is_empty:
                raise ConstraintError(f"{self!r}: input {i} may not be empty")
        conditions = self.requires(*inputs)
        for i, condition in enumerate(conditions):
            if condition is True:
                continue
            if isinstance(condition, BoolExpr):
                raise ConstraintError(f"{self!r}: condition {i} is not concrete: {condition!r}")
            if not condition:
                text = f"{self!r} does not admit {list(inputs)}: condition {i}"
                raise ConstraintError(text, _place(conditions))

    @per_input
    def cost(self, *inputs: TensorType) -> int:
        """Floating-point operations for concrete inputs. Default: one per output element."""
        return sum(t.elements for t in self.type_transfer(*inputs))


def _place(conditions: Iterable[Bool]) -> Place | None:
    """File and line at which a suspended generator of conditions (or its sub-generator) stands."""
    while (inner := getattr(conditions, "gi_yieldfrom", None)) is not None and hasattr(
        inner, "gi_frame"
    ):
        conditions = inner
    frame = getattr(conditions, "gi_frame", None)
    return frame and (frame.f_code.co_filename, frame.f_lineno)
