"""The operator contract: one class is everything nnfuzz knows about one operator.

A class is the operator, an instance is the operator with its attributes set. While a graph grows
attributes may hold expressions; `concrete` evaluates them. See docs/HOW_IT_WORKS.md for the tour
and `nnfuzz.spec.families` for the base classes that keep a usual spec at five lines.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from nnfuzz.ir.dtypes import ALL, DType
from nnfuzz.ir.expr import Bool, BoolExpr, Expr, Var, evaluate
from nnfuzz.ir.types import TensorType
from nnfuzz.spec.attributes import Attribute, Choice, Real, Sym, decode, encode, shown
from nnfuzz.spec.unexportable import Unexportable

if TYPE_CHECKING:
    from torch import Tensor

    from nnfuzz.spec.dispute import Dispute
    from nnfuzz.spec.draw import Draw
    from nnfuzz.spec.intervals import Box

Range = tuple[float, float]
ANY_RANGE: Range = (-math.inf, math.inf)


ROOM = 1e-3
"""How much two ranges overlap for values inside of both to be found by search."""


def meets(range_: Range, bounds: Range) -> bool:
    """Whether a range lies inside of bounds or overlaps with them by more than a single point."""
    (lo, hi), (least, most) = range_, bounds
    return least <= lo <= hi <= most or min(hi, most) - max(lo, least) >= ROOM


class ConstraintError(ValueError):
    """Inputs or attributes that an operator's `requires` does not admit."""


@dataclass(frozen=True)
class In:
    """Pattern of one input.

    var: name of the type variable; inputs that share it share their dtype.
    dtypes: what the variable ranges over (only the first pattern of a variable counts).
    ranks: inclusive range of ranks.
    weight: usually a parameter of the model, so usually a fresh placeholder.
    index: its values are bounded by a shape, so always a fresh placeholder (see `integer_range`).
    narrow: few values are valid (scales of quantisation), so always a fresh placeholder as well.
    """

    var: str = "T"
    dtypes: tuple[DType, ...] = ALL
    ranks: tuple[int, int] = (0, 5)
    weight: bool = False
    index: bool = False
    narrow: bool = False

    @property
    def fresh(self) -> bool:
        """Whether nothing may compute it."""
        return self.index or self.narrow


class OpSpec:
    """Base of all operator specs.

    Class attributes: `inputs`, the input patterns (the last one repeats between `variadic[0]` and
    `variadic[1]` times in all where `variadic` is set); `output`, a type variable, a DType or the
    name of an attribute that holds a DType; attribute declarations (`Sym`, `Choice`, `Real`).
    """

    name: ClassVar[str] = ""
    since: ClassVar[int] = 13
    """The first ai.onnx opset that `onnx` lowers to."""
    inputs: ClassVar[tuple[In, ...]] = (In(),)
    variadic: ClassVar[tuple[int, int] | None] = None
    output: ClassVar[str | DType] = "T"
    declared: ClassVar[dict[str, Attribute]] = {}
    weight: ClassVar[float] = 1.0
    """How often generation picks the operator, relative to the others."""
    untrusted: ClassVar[tuple[Dispute, ...]] = ()
    """Where authorities on ONNX get the operator wrong, so that `nnfuzz.check` does not follow."""

    unexportable: ClassVar[tuple[Unexportable, ...]] = ()
    """Where PyTorch's exporters fail on the operator; generation for that exporter avoids it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.declared = {
            name: value
            for base in reversed(cls.__mro__)
            for name, value in vars(base).items()
            if isinstance(value, (Sym, Choice, Real))
        }

    def __init__(self, **attributes: Any) -> None:
        """Raises: TypeError if the attributes are not exactly the declared ones."""
        if attributes.keys() != self.declared.keys():
            raise TypeError(
                f"{self.name} takes the attributes {sorted(self.declared)}, "
                f"got {sorted(attributes)}"
            )
        self.__dict__.update(attributes)

    # -- attributes ---------------------------------------------------------------------------

    @classmethod
    def draw(cls, draw: Draw, *types: TensorType) -> OpSpec:
        """An instance with fresh attributes. `types` holds at least the first input's type."""
        return cls.draw_given(draw, {}, *types)

    @classmethod
    def draw_given(cls, draw: Draw, given: Mapping[str, Any], *types: TensorType) -> OpSpec:
        """The same with some attributes given, which those declared later may depend on."""
        op = cls.__new__(cls)
        for name, declaration in cls.declared.items():
            drawn = name not in given
            op.__dict__[name] = declaration.draw(draw, name, op, types) if drawn else given[name]
        return op

    @classmethod
    def draw_backward(cls, draw: Draw, first: TensorType, output: TensorType) -> OpSpec:
        """An instance for backward insertion. Operators that change the rank fit it to `output`."""
        return cls.draw(draw, first)

    @property
    def attributes(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.declared}

    def concrete(self, env: Mapping[Var, int], memo: dict | None = None) -> OpSpec:
        """The same operator with every symbolic attribute evaluated under `env`."""
        if not self.declared:
            return self
        return type(self)(**{k: _concrete(v, env, memo) for k, v in self.attributes.items()})

    @classmethod
    def reading(
        cls,
        fields: Mapping[str, Any],
        takes: Sequence[TensorType],
        gives: Sequence[TensorType],
    ) -> OpSpec:
        """The instance that a node of a foreign model is; whether it really is gets checked.

        fields: ONNX attributes, and constant inputs that the spec declares as attributes, by their
        ONNX names; None for those left out. takes, gives: types of the other inputs, and of the
        outputs. Default: every attribute by its name. Raises: KeyError if one is missing.
        """
        return cls(**{name: fields[name] for name in cls.declared})

    def to_json(self) -> dict[str, Any]:
        return {name: encode(value) for name, value in self.attributes.items()}

    @classmethod
    def from_json(cls, attributes: Mapping[str, Any]) -> OpSpec:
        return cls(**{name: decode(value) for name, value in attributes.items()})

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={shown(v)}" for k, v in self.to_json().items())
        return f"{self.name}<{inner}>" if inner else self.name

    # -- types --------------------------------------------------------------------------------

    @classmethod
    def patterns(cls, count: int) -> tuple[In, ...]:
        """The input patterns for an arity."""
        return (cls.inputs + (cls.inputs[-1],) * (count - len(cls.inputs)))[:count]

    @classmethod
    def arity(cls) -> tuple[int, int]:
        """The least and greatest number of inputs."""
        return cls.variadic or (len(cls.inputs), len(cls.inputs))

    @classmethod
    def bound(cls) -> dict[str, int]:
        """Per type variable, the first input that binds it; those of optional inputs are left out.

        What these are bound to names a signature, whether the optional inputs are there or not.
        """
        first: dict[str, int] = {}
        for position, pattern in enumerate(cls.inputs[: max(1, cls.arity()[0])]):
            first.setdefault(pattern.var, position)
        return first

    @classmethod
    def signatures(cls) -> list[tuple[dict[str, DType], DType]]:
        """Every admissible binding of the type variables, with the output's dtype."""
        domains: dict[str, tuple[DType, ...]] = {}
        for pattern in cls.inputs:
            domains.setdefault(pattern.var, pattern.dtypes)
        found = []
        for combo in itertools.product(*domains.values()):
            binding = dict(zip(domains, combo))
            found += [(binding, out) for out in cls._output_dtypes(binding)]
        return found

    @classmethod
    def _output_dtypes(cls, binding: Mapping[str, DType]) -> Sequence[DType]:
        if isinstance(cls.output, DType):
            return (cls.output,)
        if cls.output in binding:
            return (binding[cls.output],)
        options = cls.declared[cls.output].options  # type: ignore[union-attr]
        return tuple(options)

    def output_dtype(self, *inputs: TensorType) -> DType:
        """The dtype of the (first) output."""
        if isinstance(self.output, DType):
            return self.output
        for pattern, type_ in zip(self.patterns(len(inputs)), inputs):
            if pattern.var == self.output:
                return type_.dtype
        return getattr(self, self.output)

    def requires(self, *inputs: TensorType) -> Iterable[Bool]:
        """Conditions under which the operator is defined; dtypes and ranks are already matched.

        Pure: no dice, no environment, no writing to self.
        """
        return ()

    def type_transfer(self, *inputs: TensorType) -> list[TensorType]:
        """The output types, given inputs that satisfy `requires`. Default: like the first input."""
        return [TensorType(self.output_dtype(*inputs), inputs[0].shape)]

    def complete(self, draw: Draw, first: TensorType, dtypes: Sequence[DType]) -> list[TensorType]:
        """Types for all inputs (first one given) with which `requires` is likely to hold.

        Used for inputs that become fresh placeholders. `dtypes` has one entry per input.
        Default: fresh dimensions, the first input's rank where the pattern admits it.
        """
        types = [first]
        for pattern, dtype in zip(self.patterns(len(dtypes))[1:], dtypes[1:]):
            lo, hi = pattern.ranks
            types.append(draw.tensor(dtype, min(max(first.rank, lo), hi)))
        return types

    @classmethod
    def input_rank(cls, draw: Draw, output_rank: int) -> int | None:
        """The rank of the first input behind an output of that rank; None if there is none."""
        return output_rank

    def infer_input_types(
        self, draw: Draw, first: TensorType, dtypes: Sequence[DType], output: TensorType
    ) -> list[TensorType]:
        """Input types that can yield `output` (backward insertion).

        `first` has fresh dimensions and was used to draw the attributes. The engine adds the
        constraint that `type_transfer` of the answer equals `output`, so an answer may be a guess;
        one that fits by construction saves solver calls. Default: the output's sizes along the
        axes that `type_transfer` leaves alone, those of `first` along the others.
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

    def refusal(self, exporter: str, opset: int, *inputs: TensorType) -> str:
        """Why the operator on such inputs (concrete or not) is not for an exporter; or ""."""
        for declared in self.unexportable:
            if declared.covers(exporter, opset, inputs):
                return declared.reason
        return ""

    def without_input(self, position: int) -> OpSpec | None:
        """The operator for one input less, where it can do without. Default: as `variadic` says.

        Whether the remaining ones are enough is for `check` to say.
        """
        return self if self.variadic and position > 0 else None

    def disputes(self, opset: int, *inputs: TensorType) -> list[Dispute]:
        """What of `untrusted` concerns the operator on such inputs (concrete) at an opset."""
        return [d for d in self.untrusted if d.covers(self, opset, inputs)]

    def check(self, *inputs: TensorType) -> None:
        """Check concrete inputs against the patterns and `requires`.

        Raises: ConstraintError naming the operator and the condition.
        """
        lo, hi = self.arity()
        if not lo <= len(inputs) <= hi:
            raise ConstraintError(f"{self!r} takes {lo} to {hi} inputs, got {len(inputs)}")
        bound: dict[str, DType] = {}
        for i, (pattern, type_) in enumerate(zip(self.patterns(len(inputs)), inputs)):
            expected = bound.setdefault(pattern.var, type_.dtype)
            first = next(p for p in self.inputs if p.var == pattern.var)
            if type_.dtype is not expected or type_.dtype not in first.dtypes:
                raise ConstraintError(f"{self!r}: input {i} may not be {type_!r}")
            if not pattern.ranks[0] <= type_.rank <= pattern.ranks[1]:
                raise ConstraintError(f"{self!r}: input {i} may not have rank {type_.rank}")
        for i, condition in enumerate(self.requires(*inputs)):
            if isinstance(condition, BoolExpr):
                raise ConstraintError(f"{self!r}: condition {i} is not concrete: {condition!r}")
            if not condition:
                raise ConstraintError(f"{self!r} does not admit {list(inputs)}: condition {i}")

    def cost(self, *inputs: TensorType) -> int:
        """Floating-point operations for concrete inputs. Default: one per output element."""
        return sum(t.numel for t in self.type_transfer(*inputs))  # type: ignore[misc]

    # -- meaning ------------------------------------------------------------------------------

    def torch(self, *tensors: Tensor) -> Tensor | Sequence[Tensor]:
        """Reference semantics; floats may come in any float dtype, float64 included."""
        raise NotImplementedError(f"{self.name}.torch")

    def proxy(self, *tensors: Tensor) -> Tensor | Sequence[Tensor]:
        """A differentiable stand-in for `torch`, where that is flat or jumps.

        The input search takes its derivatives only, never its values. Every tensor comes in
        float64, integers and booleans too. Default: `torch`.
        """
        return self.torch(*tensors)

    def onnx(self, emit: Any, *values: str) -> str | Sequence[str]:
        """Lower to standard ONNX through `emit` (see nnfuzz.materialize.emit.Emitter).

        Default: one ONNX operator of the same name with `onnx_attributes`, of which those in
        `as_inputs` become initializers of int64.
        """
        attributes = dict(self.onnx_attributes())
        more = [emit.const(attributes.pop(name), DType.INT64) for name in self.as_inputs]
        return emit(self.name, *values, *more, **attributes)

    as_inputs: ClassVar[tuple[str, ...]] = ()
    """The attributes that ONNX takes as inputs, behind the tensors."""

    def onnx_attributes(self) -> dict[str, Any]:
        """The attributes of the default lowering. Default: the declared ones, by their names."""
        return self.attributes

    # -- numbers ------------------------------------------------------------------------------

    valid: ClassVar[tuple[Range | None, ...]] = ()
    """Per input, the closed range outside of which NaN or Inf appear; None or absent: anything."""

    def domain(self, *tensors: Tensor) -> list[Tensor]:
        """Tensors that must be <= 0 everywhere for the result to be finite. Default: `valid`."""
        terms = []
        for tensor, bounds in zip(tensors, self.valid):
            if bounds is not None:
                lo, hi = bounds
                terms += [lo - tensor] if lo > -math.inf else []
                terms += [tensor - hi] if hi < math.inf else []
        return terms

    def margins(self, *tensors: Tensor) -> list[Tensor]:
        """Distances (>= 0) to the nearest discontinuity. Default: the operator has none."""
        return []

    def integer_range(self, *inputs: TensorType) -> tuple[Range | None, ...]:
        """Per input (concrete types), the closed range its integers must lie in; None: any.

        Only inputs whose pattern says `index` have one: generation feeds them from placeholders
        that nothing else computes, the input search draws their values within the range.
        A shorter tuple stands for None in the rest. Default: no input is restricted.
        """
        return ()

    def value_range(self, *ranges: Range) -> Range:
        """Bounds of every output element, given bounds of the inputs. Default: `within`."""
        return self.within

    def feasible(self, *ranges: Range) -> bool:
        """Whether some values within the ranges give a finite result. Default: by `valid`."""
        return all(
            bounds is None or meets(range_, bounds) for range_, bounds in zip(ranges, self.valid)
        )

    def certain(self, *inputs: TensorType) -> tuple[Range, ...]:
        """Ranges that hold some output element each, whatever the input values.

        Constant padding, for instance, and the least of several probabilities. Dimensions may be
        symbolic; a range that may be certain, depending on them, counts. Default: none.
        """
        return ()

    def further(self, *ranges: Range) -> Sequence[tuple[Range, ...]]:
        """Per output behind the first: bounds of its elements, then ranges that hold some of them.

        For outputs that are no elements of the first one's kind, positions for instance.
        Default: `value_range` and `certain` speak of all outputs.
        """
        return ()

    whole: ClassVar[str] = ""
    """When every element of the (first) output is a whole number: "always", or "kept" where all
    inputs are whole numbers; "" for nothing of the kind."""

    constant: ClassVar[bool] = False
    """Whether the outputs follow from shapes and attributes, whatever the values of the inputs."""

    def radius(self, u: float, y: Tensor, *xs: Tensor) -> Tensor | float:
        """Bound of the local rounding error of a correct implementation (see ORACLE in docs).

        u: unit roundoff of the working dtype. y, xs: output and inputs in float64.
        Default: 0, exact (data movement).
        """
        return 0.0

    monotone: ClassVar[tuple[int, ...]] = ()
    """Per input, +1 where every output element grows with it and -1 where it falls; the last
    entry repeats. What `interval` goes by when it is not overridden."""

    exactness: ClassVar[str] = ""
    """When the result has no rounding error at all: "rounded", wherever it is representable in
    the working dtype (+ - * / sqrt); "sum", wherever every term is an integer and their absolute
    values add up to less than 1 / u."""

    modular: ClassVar[bool] = False
    """Whether the result of integers modulo 2^n follows from the inputs modulo 2^n: data movement,
    + - * and bitwise operators."""

    within: ClassVar[Range] = ANY_RANGE
    """The range that results of a correct implementation do not leave, not even by rounding."""

    def undefined(self, *boxes: Box) -> Tensor | None:
        """Mask of output elements that ONNX leaves undefined for some inputs inside of the boxes.

        Out-of-range casts to integers, integer division by zero and the like; values that are not
        finite are found without it. Default: None, everything is defined.
        """
        return None

    def interval(self, *boxes: Box) -> Sequence[Box]:
        """Output boxes that contain every exact result for inputs inside of the given boxes.

        Default: by `monotone`; without it nothing is known unless every input is exact.
        """
        from nnfuzz.spec.intervals import Box, ends, opaque, reached

        if not self.monotone:
            return opaque(self, *boxes)
        lo, hi = ends(self.torch, self.monotone, *boxes)
        return [Box(lo, hi, reached(self, *boxes))]

    def decided(self, u: float, *boxes: Box) -> Sequence[Box] | None:
        """`interval` of an operator that rounds before it decides, asked for exact inputs as well.

        Quantisation divides, and a rounding error of the quotient turns a tie over.
        u: the greatest unit roundoff of the inputs' dtypes. Default: None, not such an operator.
        """
        return None


def operator(cls: type[OpSpec]) -> type[OpSpec]:
    """Mark a class as a complete operator spec, so that registries find it."""
    cls.operator_name = cls.name = vars(cls).get("name") or cls.__name__
    return cls


def _concrete(value: Any, env: Mapping[Var, int], memo: dict | None) -> Any:
    if isinstance(value, Expr):
        return int(evaluate(value, env, memo))
    if isinstance(value, tuple):
        return tuple(_concrete(v, env, memo) for v in value)
    return value


def dtypes_of(spec: type[OpSpec], count: int, binding: Mapping[str, DType]) -> list[DType]:
    """One dtype per input for a binding of the type variables."""
    return [binding[p.var] for p in spec.patterns(count)]


def flatten(outputs: Tensor | Sequence[Tensor]) -> Iterator[Tensor]:
    """The outputs of `OpSpec.torch` as a sequence, whether it returned one tensor or several."""
    if isinstance(outputs, (tuple, list)):
        yield from outputs
    else:
        yield outputs
