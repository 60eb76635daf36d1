"""Mined patterns (nnfuzz.operators.motif_file) as motifs and as concrete graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from nnfuzz.base.reading import Unreadable
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Int
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.motif import Misfit, Motif, Operand, Writer, load_motifs
from nnfuzz.operators.motif_file import (
    MinedPattern,
    MotifVariant,
    PatternInput,
    PatternNode,
    Size,
    read_patterns,
)
from nnfuzz.operators.registry import installed, modules

if TYPE_CHECKING:
    from nnfuzz.operators.operator import OpSpec

Sizes = Mapping[str, Int]
USUAL = 0.25
"""Probability that a size is the one of the model."""
LARGEST = 32
"""The largest of the other sizes, so that products of them stay within the limits of graphs."""
EXPORTED = 0.5
"""Weight of a skeleton that an exporter wrote, which varies less than one written by hand."""
Lookup = Callable[[str], "type[OpSpec]"]


def all_motifs(plugins: Sequence[ModuleType] = (), files: Iterable[str | Path] = ()) -> list[Motif]:
    """The motifs that are written by hand, those of motif files that modules with operators name as
    MOTIF_FILES, and those of further files. Raises: ValueError as `load_motifs`; Unreadable.
    """
    parts = (part for top in (*installed(), *plugins) for part in modules(top))
    named = [file for part in parts for file in vars(part).get("MOTIF_FILES", ())]
    return [*load_motifs(plugins), *mined_motifs([*named, *files])]


def mined_motifs(files: Iterable[str | Path]) -> list[Motif]:
    """The motifs of motif files, those of the same name once. Raises: Unreadable."""
    motifs: dict[str, Motif] = {}
    for file in files:
        for pattern in read_patterns(file):
            motifs.setdefault(pattern.name, as_motif(pattern))
    return list(motifs.values())


def as_motif(pattern: MinedPattern) -> Motif:
    """The motif that plants a pattern."""
    starts = [variant.inputs[pattern.start] for variant in pattern.variants]
    dtypes = dict.fromkeys(
        name
        for variant, start in zip(pattern.variants, starts)
        for name in variant.dtypes.get(start.dtype, (start.dtype,))
    )
    ranks = [len(start.shape) for start in starts]
    planting = _Planting(pattern)
    return Motif(
        name=pattern.name,
        write=planting.write,
        size=len(pattern.nodes),
        dtypes=tuple(map(DType, dtypes)),
        ranks=(min(ranks), max(ranks)),
        begin=planting.begin,
        weight=EXPORTED if pattern.skeleton else 1.0,
        mined=not pattern.skeleton,
        skeleton=pattern.skeleton,
    )


def witness(pattern: MinedPattern, variant: MotifVariant, lookup: Lookup) -> Graph:
    """The graph of a variant at the sizes and dtypes of the model; nothing of it is checked."""
    sizes = {letter: usual for letter, (usual, _) in variant.sizes.items()}
    dtypes = {letter: DType(names[0]) for letter, names in variant.dtypes.items()}
    return graph_of(pattern.nodes, variant, lookup, sizes, dtypes)


def graph_of(
    nodes: Sequence[PatternNode],
    variant: MotifVariant,
    lookup: Lookup,
    sizes: Sizes,
    dtypes: Mapping[str, DType],
) -> Graph:
    """The graph of nodes with the types and attributes of a variant, for values of its letters.
    Raises: any error of a spec.
    """
    graph = Graph()
    for name, value in variant.inputs.items():
        graph.values[name] = Value(name, _type(value, sizes, dtypes))
        (graph.weights if value.weight else graph.inputs).append(name)
        if value.constant is not None:
            graph.prescribed[name] = (value.constant, value.constant)
    for position, node in enumerate(nodes):
        op = lookup(node.op)(**variant.attributes_of(position, sizes, dtypes))
        types = graph.types(node.inputs)
        op.check(*types)
        for name, type_ in zip(node.outputs, op.type_transfer(*types), strict=True):
            graph.values[name] = Value(name, type_)
            graph.outputs.append(name)
        graph.nodes.append(Node(op, node.inputs, node.outputs))
    return graph


def check_patterns(files: Iterable[str | Path], lookup: Lookup) -> None:
    """Raises: Unreadable if a variant in the files is no valid graph of known operators."""
    for file in files:
        for pattern in read_patterns(file):
            for variant in pattern.variants:
                try:
                    witness(pattern, variant, lookup).verify()
                except Exception as error:  # foreign attributes may lead to any error
                    problem = error.args[0] if error.args else type(error).__name__
                    raise Unreadable(f"{file}: pattern {pattern.name}: {problem}") from error


def _type(value: PatternInput, sizes: Sizes, dtypes: Mapping[str, DType]) -> TensorType:
    dtype = dtypes[value.dtype] if value.dtype in dtypes else DType(value.dtype)
    return TensorType(dtype, tuple(size.value(sizes) for size in value.shape))


@dataclass(frozen=True)
class _Planting:
    """Writes a pattern behind a value; `begin` draws the type of a value that it can begin with."""

    pattern: MinedPattern

    def begin(self, draw: Draw, dtypes: Mapping[DType, float]) -> TensorType | None:
        variant = draw.choice(self.pattern.variants)
        start = variant.inputs[self.pattern.start]
        names = map(DType, variant.dtypes.get(start.dtype, (start.dtype,)))
        allowed = [dtype for dtype in names if dtypes.get(dtype)]
        if not allowed:
            return None
        sizes: dict[str, Int] = dict(_drawn(variant, draw, {}))
        chosen = draw.rng.choices(allowed, [dtypes[dtype] for dtype in allowed])[0]
        return _type(start, sizes, {start.dtype: chosen})

    def write(self, m: Writer, start: str) -> None:
        """Raises: Misfit if no variant has such a start."""
        type_ = m.type(start)
        for variant in m.draw.shuffled(self.pattern.variants):
            value = variant.inputs[self.pattern.start]
            names = variant.dtypes.get(value.dtype, (value.dtype,))
            sizes = _matched(value.shape, type_.shape, variant, m.draw)
            if sizes is not None and type_.dtype.value in names:
                self._write(m, start, variant, sizes)
                return
        raise Misfit(f"{self.pattern.name} behind {type_}")

    def _write(self, m: Writer, start: str, variant: MotifVariant, sizes: dict[str, Int]) -> None:
        own = variant.inputs[self.pattern.start].dtype
        dtypes = {n: DType(m.draw.choice(names)) for n, names in variant.dtypes.items()}
        dtypes[own] = m.type(start).dtype
        sizes.update(_drawn(variant, m.draw, sizes))
        readers = Counter(name for node in self.pattern.nodes for name in node.inputs)
        values: dict[str, Operand] = {self.pattern.start: start}
        for name, value in variant.inputs.items():
            if name != self.pattern.start:
                type_ = _type(value, sizes, dtypes)
                values[name] = _entering(m, value, type_, readers[name] > 1)
        for position, node in enumerate(self.pattern.nodes):
            given = variant.attributes_of(position, sizes, dtypes)
            made = m(node.op, *(values[name] for name in node.inputs), **given)
            values.update(zip(node.outputs, made if isinstance(made, tuple) else (made,)))


def _entering(m: Writer, value: PatternInput, type_: TensorType, shared: bool) -> Operand:
    """The operand for a value that enters the pattern, other than the start."""
    if value.constant is not None:
        return m.shared(type_, value.constant)
    if value.weight:
        return m.shared(type_) if shared else type_
    return m.index(type_) if value.position else m.free(type_)


def _drawn(variant: MotifVariant, draw: Draw, bound: Sizes) -> Mapping[str, int]:
    """Random values of the letters that have none: all those of the model, or each a random one."""
    usual = draw.chance(USUAL)
    return {
        letter: size if usual else draw.value(least, max(least, size, LARGEST))
        for letter, (size, least) in variant.sizes.items()
        if letter not in bound
    }


def _matched(
    shape: tuple[Size, ...], dims: tuple[Int, ...], variant: MotifVariant, draw: Draw
) -> dict[str, Int] | None:
    """Values of letters with which a shape has given dimensions, or None if there are none.

    Of a product of several letters, all but one are drawn among the divisors.
    """
    if len(shape) != len(dims):
        return None
    bound: dict[str, Int] = {}
    for size, dim in sorted(zip(shape, dims), key=lambda pair: len(pair[0].letters)):
        if not _bind(size, dim, bound, draw):
            return None
    fits = all(
        not isinstance(value, int) or value >= variant.sizes[letter][1]
        for letter, value in bound.items()
    )
    return bound if fits else None


def _bind(size: Size, dim: Int, bound: dict[str, Int], draw: Draw) -> bool:
    """Gives values to the letters of a size that have none; whether it is then that dimension."""
    if not isinstance(dim, int):
        if size.coefficient == 1 and len(size.letters) == 1:
            return bound.setdefault(size.letters[0], dim) is dim
        return False
    for letter in size.letters[:-1]:
        if letter not in bound:
            divisors = [d for d in range(1, min(dim, LARGEST) + 1) if dim % d == 0]
            bound[letter] = draw.choice(divisors)
    if size.letters and size.letters[-1] not in bound:
        rest = Size(size.coefficient, size.letters[:-1]).value(bound)
        if not isinstance(rest, int) or dim % rest:
            return False
        bound[size.letters[-1]] = dim // rest
    value = size.value(bound)  # open where a letter stands for a dimension that is not decided
    return isinstance(value, int) and value == dim
