"""The operators that generation may use, with their signatures, indexed for fast random picks."""

from __future__ import annotations

import itertools
import math
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from nnfuzz.generate.arrangements import arrangements
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.pairs import pairs
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.motif import Motif
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.unexportable import FROM_PYTORCH, unknown_dtype


def signature_key(spec: type[OpSpec], binding: Mapping[str, DType], output: DType) -> str:
    """The name of an operator's signature (its dtypes), such as "Where(bool,float32)->float32"."""
    return f"{spec.name}({','.join(binding[v].value for v in spec.bound())})->{output.value}"


@dataclass(frozen=True, eq=False)
class OpSignature:
    """A signature of an operator: dtypes of its type variables, and dtype of its first output.

    first: dtype of the first input. key: its name (`signature_key`). weight: relative frequency.
    """

    binding: Mapping[str, DType]
    output: DType
    first: DType
    key: str
    weight: float

    def agrees(self, binding: Mapping[str, DType]) -> bool:
        """Whether the dtypes of type variables that both bind are the same."""
        return all(binding.get(var, dtype) is dtype for var, dtype in self.binding.items())

    def settle(self, op: OpSpec) -> None:
        """Set the attribute that holds the output's dtype, if the operator has one."""
        if op.output in op.declared:
            op.__dict__[op.output] = self.output


def _weighted_motifs(
    motifs: Sequence[Motif],
    table: dict[type[OpSpec], tuple[OpSignature, ...]],
    focus: Sequence[str] = (),
) -> list[Motif]:
    """The given motifs, pairs of operators and the arrangement of the focus, with their weights."""
    whole = sum(motif.weight for motif in motifs) or float(bool(focus))
    others = [*motifs, *pairs(table, whole, focus)]
    return [*others, *arrangements(tuple(table), focus, sum(motif.weight for motif in others))]


class Weighted(Protocol):
    """Anything that is picked in proportion to its weight."""

    @property
    def weight(self) -> float: ...


W = TypeVar("W", bound=Weighted)


class WeightedGroup(Generic[W]):
    """Options, of which one is drawn in proportion to its weight by one binary search."""

    def __init__(self, options: Sequence[W]) -> None:
        self.options = options
        self._cumulative = list(itertools.accumulate([o.weight for o in options]))
        self.weight = self._cumulative[-1]

    def pick(self, draw: Draw) -> W:
        if len(self.options) == 1:
            return self.options[0]
        return self.options[_at(self._cumulative, draw)]


def _at(cumulative: Sequence[float], draw: Draw) -> int:
    """A random position. cumulative: cumulative sums of the weights."""
    return bisect(cumulative, draw.rng.random() * cumulative[-1], 0, len(cumulative) - 1)


class _Table:
    """An operator's signatures: all, by dtype of the first input, and by dtype of the output."""

    def __init__(self, signatures: Sequence[OpSignature]) -> None:
        self.all = WeightedGroup(signatures)
        self._fitting: dict[Any, WeightedGroup[OpSignature] | None] = {}

    @cached_property
    def by_first(self) -> dict[DType, WeightedGroup[OpSignature]]:
        return _grouped(self.all.options, lambda s: s.first)

    @cached_property
    def by_output(self) -> dict[DType, WeightedGroup[OpSignature]]:
        return _grouped(self.all.options, lambda s: s.output)

    def fitting(
        self, binding: Mapping[str, DType], output: DType | None
    ) -> WeightedGroup[OpSignature] | None:
        """See Catalog.fitting."""
        key = output, *binding.items()
        if key not in self._fitting:
            fits = [s for s in self.all.options if s.agrees(binding) and output in (None, s.output)]
            self._fitting[key] = WeightedGroup(fits) if fits else None
        return self._fitting[key]


def _grouped(
    signatures: Sequence[OpSignature], dtype: Callable[[OpSignature], DType]
) -> dict[DType, WeightedGroup[OpSignature]]:
    found: dict[DType, list[OpSignature]] = {}
    for signature in signatures:
        found.setdefault(dtype(signature), []).append(signature)
    return {dtype: WeightedGroup(group) for dtype, group in found.items()}


@lru_cache(maxsize=1 << 12)
def _indexed(signatures: tuple[OpSignature, ...]) -> _Table:
    """Cached, since most operators have the same signatures at every opset and in every epoch."""
    return _Table(signatures)


class NothingLeft(ValueError):
    """No operator is left to generate from."""


class Catalog:
    """Operator classes with their admissible signatures, and motifs made of them.

    motifs: the given ones, pairs (nnfuzz.generate.pairs) and the arrangement of a focus
    (nnfuzz.generate.arrangements). skeletons: motifs of a model's size, never picked at random.
    """

    def __init__(
        self,
        specs: Iterable[type[OpSpec]],
        config: GenerateConfig,
        motifs: Iterable[Motif] = (),
    ) -> None:
        """Raises: NothingLeft if there is no operator with an admissible signature."""
        dtypes = tuple(config.dtype_weights.items())
        table: dict[type[OpSpec], tuple[OpSignature, ...]] = {}
        for spec in specs:
            known = _signatures(spec, config.exporter, config.opset, dtypes)  # type: ignore[arg-type]
            found = tuple(signature for signature in known if signature.key not in config.refused)
            if found and spec.name not in config.refused:
                table[spec] = found
        given = list(motifs)
        own = [motif for motif in given if not motif.skeleton]
        self._index(table, _weighted_motifs(own, table, config.focus), config.operator_weights)
        self.skeletons += tuple(motif for motif in given if motif.skeleton and motif.weight)

    def _index(
        self,
        table: dict[type[OpSpec], tuple[OpSignature, ...]],
        motifs: Iterable[Motif] = (),
        weights: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """weights: factors on the operators' frequencies, by operator name."""
        if not table:
            raise NothingLeft("no operator is left: every signature is refused or excluded")
        self.signatures = table
        self.motifs = tuple(motifs)
        self._motifs_up_to: dict[int, WeightedGroup[Motif] | None] = {}
        self.skeletons: tuple[Motif, ...] = ()
        self._by_name = {spec.name: spec for spec in table}
        self._tables: dict[type[OpSpec], _Table] = {}
        self._specs = list(table)
        each = [spec.weight * weights.get(spec.name, 1.0) for spec in self._specs]
        self._cumulative = list(itertools.accumulate(each))
        self._weights = dict(zip(self._specs, each))

    def _table(self, spec: type[OpSpec]) -> _Table:
        """The signatures of an operator, indexed when it is first picked."""
        if spec not in self._tables:
            self._tables[spec] = _indexed(tuple(self.signatures[spec]))
        return self._tables[spec]

    def bits(self, op: OpSpec, signature: OpSignature) -> float:
        """The information (-log2 of the probability) of drawing this operator and signature."""
        own, whole = self._weights[type(op)], self._cumulative[-1]
        if not own:
            return math.inf
        among = self._table(type(op)).all.weight
        return math.log2(whole / own * among) - math.log2(signature.weight)

    def signature_keys(self) -> list[str]:
        """The key of every admissible signature, in order of registration."""
        return [s.key for found in self.signatures.values() for s in found]

    def only(self, key: str) -> Catalog:
        """The catalog restricted to one signature. Raises: KeyError if it is not admissible."""
        for spec, found in self.signatures.items():
            for signature in found:
                if signature.key == key:
                    catalog = Catalog.__new__(Catalog)
                    catalog._index({spec: (signature,)})
                    return catalog
        raise KeyError(f"unknown or refused signature {key!r}")

    def find(self, name: str) -> type[OpSpec] | None:
        """The operator of a name; None if it has no admissible signature."""
        return self._by_name.get(name)

    def motifs_up_to(self, size: int) -> WeightedGroup[Motif] | None:
        """The motifs of at most `size` nodes; None if there are none."""
        if size not in self._motifs_up_to:
            fitting = [motif for motif in self.motifs if motif.size <= size]
            self._motifs_up_to[size] = WeightedGroup(fitting) if fitting else None
        return self._motifs_up_to[size]

    def fitting(
        self, spec: type[OpSpec], binding: Mapping[str, DType], output: DType | None
    ) -> WeightedGroup[OpSignature] | None:
        """The operator's signatures with these dtypes; None if there are none.

        binding: may lack type variables. output: None for any.
        """
        return self._table(spec).fitting(binding, output)

    def admits(self, spec: type[OpSpec], binding: Mapping[str, DType], output: DType) -> bool:
        """Whether the operator may have these dtypes; `binding` may lack type variables."""
        return self._table(spec).fitting(binding, output) is not None

    def pick(self, draw: Draw) -> type[OpSpec]:
        """A random operator class, in proportion to its weight."""
        return self._specs[_at(self._cumulative, draw)]

    def outputs(self, spec: type[OpSpec]) -> Iterable[DType]:
        """The dtypes that the operator's first output can have."""
        return self._table(spec).by_output

    def pick_signature(self, draw: Draw, spec: type[OpSpec]) -> OpSignature:
        """A random signature of the operator."""
        return self._table(spec).all.pick(draw)

    def reads(self, spec: type[OpSpec]) -> Iterable[DType]:
        """The dtypes that the operator's first input can have."""
        return self._table(spec).by_first

    def pick_reading(self, draw: Draw, spec: type[OpSpec], dtypes: Sequence[DType]) -> OpSignature:
        """A random signature whose first input has one of the dtypes (all of them in `reads`)."""
        by_first = self._table(spec).by_first
        if len(dtypes) == 1:
            return by_first[dtypes[0]].pick(draw)
        return weighted(draw, [by_first[dtype] for dtype in dtypes]).pick(draw)

    def pick_computing(self, draw: Draw, spec: type[OpSpec], dtype: DType) -> OpSignature | None:
        """A random signature whose output has the dtype; None if there is none."""
        group = self._table(spec).by_output.get(dtype)
        return group.pick(draw) if group else None


def weighted(draw: Draw, options: Sequence[W]) -> W:
    """One of the options, in proportion to its `weight`."""
    if len(options) == 1:
        return options[0]
    return draw.rng.choices(options, [o.weight for o in options])[0]


@lru_cache(maxsize=1 << 12)
def _signatures(
    spec: type[OpSpec], exporter: str, opset: int, weights: tuple[tuple[str, float | None], ...]
) -> tuple[OpSignature, ...]:
    """The signatures that an exporter supports at an opset, including those a backend refuses.

    Cached, since a campaign's catalogs differ only in what backends refuse, from epoch to epoch.
    """
    wanted = _wanted(spec, weights)  # type: ignore[arg-type]
    return tuple(s for s in wanted if not _unexportable(spec, exporter, opset, s))


@lru_cache(maxsize=1 << 12)
def _wanted(
    spec: type[OpSpec], weights: tuple[tuple[str, float | None], ...]
) -> tuple[OpSignature, ...]:
    """The signatures with the wanted dtypes; cached, for all exporters and opsets."""
    config = GenerateConfig(dtype_weights=dict(weights))
    found = []
    forced = _forced(spec, config)
    for binding, output in spec.signatures():
        weight = _weight(spec, binding, output, forced, config)
        if weight:
            key, first = signature_key(spec, binding, output), binding[spec.inputs[0].var]
            found.append(OpSignature(binding, output, first, key, weight))
    return tuple(found)


INDICES = (DType.INT32, DType.INT64)


def _forced(spec: type[OpSpec], config: GenerateConfig) -> dict[str, DType]:
    """The dtype of each type variable that admits none of the wanted dtypes.

    Such a variable has a single dtype (bool for a condition), or is an index (then int64 is used).
    The key "" stands for an output whose dtype no input shares.
    """
    admitted: dict[str, set[DType]] = {}
    for binding, output in spec.signatures():
        for variable, dtype in _places(spec, binding, output).items():
            admitted.setdefault(variable, set()).add(dtype)
    unwanted = {v: d for v, d in admitted.items() if not any(map(config.dtype_weight, d))}
    single = {v: next(iter(dtypes)) for v, dtypes in unwanted.items() if len(dtypes) == 1}
    indices = {v: DType.INT64 for v, dtypes in unwanted.items() if dtypes == set(INDICES)}
    return {**single, **indices}


def _places(spec: type[OpSpec], binding: Mapping[str, DType], output: DType) -> Mapping[str, DType]:
    """The dtypes by type variable; "" stands for an output whose dtype no input shares."""
    return binding if spec.output in binding else {**binding, "": output}


def _weight(
    spec: type[OpSpec],
    binding: Mapping[str, DType],
    output: DType,
    forced: Mapping[str, DType],
    config: GenerateConfig,
) -> float:
    """The relative frequency of a signature; 0 if it has an unwanted dtype that is not forced."""
    weights = {d: config.dtype_weight(d) for d in dict.fromkeys((*binding.values(), output))}
    needless = any(
        not weights[dtype] and forced.get(variable) is not dtype
        for variable, dtype in _places(spec, binding, output).items()
    )
    if needless or None in weights.values() or not any(weights.values()):
        return 0.0
    return math.prod(weight or 1.0 for weight in weights.values())


def _unexportable(spec: type[OpSpec], exporter: str, opset: int, signature: OpSignature) -> bool:
    """Whether the signature cannot be exported for any rank; single ranks are checked by Growth."""
    if spec.onnx_domain and exporter in FROM_PYTORCH:
        return True  # PyTorch has no operators of other domains
    dtypes = list(signature.binding.values())
    return unknown_dtype(exporter, (*dtypes, signature.output)) or any(
        not declared.scalars and declared.concerns(exporter, opset, dtypes)
        for declared in spec.unexportable
    )
