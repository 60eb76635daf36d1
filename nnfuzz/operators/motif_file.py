"""Motif files: patterns that were cut out of models, as JSON records. The format.

A pattern is a connected graph of operators without sizes. A variant of it says with which
attributes, constants and types it occurs: sizes are products of letters, so that dimensions that
were equal stay equal, and dtypes that were the same have one letter. `nnfuzz.operators.mined` makes
a motif of a pattern.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.untrusted import parsed_json, read_text
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Int, product
from nnfuzz.operators.attributes import decode

SCHEMA = 1
SUFFIXES = (".json", ".jsonl")
MOST_NODES, MOST_VARIANTS, MOST_SIZE, MOST_FILES = 16, 64, 1 << 16, 20_000
"""Limits of a file of unknown origin; `nnfuzz mine` writes at most 8 nodes and 4 variants."""
LARGEST_SKELETON = 128
"""Nodes of a pattern that is a skeleton."""


@dataclass(frozen=True)
class Size:
    """A dimension or an element of an attribute: a coefficient times a product of letters."""

    coefficient: int = 1
    letters: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads "4", "a" or "2*a*b". Raises: ValueError."""
        parts = text.split("*")
        numbers = [int(part) for part in parts if not part.isidentifier()]
        return cls(math.prod(numbers), tuple(part for part in parts if part.isidentifier()))

    def __str__(self) -> str:
        coefficient = [] if self.coefficient == 1 and self.letters else [str(self.coefficient)]
        return "*".join([*coefficient, *self.letters])

    def value(self, sizes: Mapping[str, Int]) -> Int:
        """The size for values of the letters. Raises: KeyError for a letter without a value."""
        return product((self.coefficient, *(sizes[letter] for letter in self.letters)))


@dataclass(frozen=True)
class PatternNode:
    """An operator spec by name, with the names of the values that it reads and computes."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class PatternInput:
    """A value that enters a pattern.

    dtype: a letter of `MotifVariant.dtypes`, or the name of a dtype. weight: whether it was a
    constant of the model. constant: the value of all its elements, if they were equal; None: any.
    position: whether its elements are positions to look up, which nothing computes.
    """

    dtype: str
    shape: tuple[Size, ...] = ()
    weight: bool = False
    constant: float | None = None
    position: bool = False


@dataclass(frozen=True)
class MotifVariant:
    """One way in which a pattern occurs.

    inputs: by name. attributes: of each node, in the form of `nnfuzz.operators.attributes.encode`,
    with {"size": "2*a"} for an integer that depends on sizes and {"dtype": "T"} for a dtype letter.
    dtypes: those that each letter can stand for, the one of the model first. sizes: for each
    letter, the size in the model and the least size with which the pattern was valid.
    """

    inputs: Mapping[str, PatternInput]
    attributes: tuple[Mapping[str, Any], ...]
    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def attributes_of(
        self, position: int, sizes: Mapping[str, Int], dtypes: Mapping[str, DType]
    ) -> dict[str, Any]:
        """The attributes of a node for values of the letters."""
        return {n: _settled(v, sizes, dtypes) for n, v in self.attributes[position].items()}


def _settled(value: Any, sizes: Mapping[str, Int], dtypes: Mapping[str, DType]) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_settled(v, sizes, dtypes) for v in value)
    if isinstance(value, dict) and "size" in value:
        return Size.parse(value["size"]).value(sizes)
    if isinstance(value, dict) and value.get("dtype") in dtypes:
        return dtypes[value["dtype"]]
    return decode(value)


@dataclass(frozen=True)
class MotifSource:
    """The origin of a pattern: a source with its licence, and the number of its models that have
    it.
    """

    source: str
    licence: str = ""
    models: int = 1


@dataclass(frozen=True)
class MinedPattern:
    """A pattern with its variants, the most frequent one first.

    start: the input that an existing value can take the place of; it is no weight. skeleton:
    whether it is a part of a model that is as large as a layer (see nnfuzz.operators.motif).
    """

    name: str
    start: str
    nodes: tuple[PatternNode, ...]
    variants: tuple[MotifVariant, ...]
    origins: tuple[MotifSource, ...] = ()
    skeleton: bool = False
    schema: int = SCHEMA

    def checked(self) -> Self:
        """The same pattern. Raises: Unreadable if its records contradict each other or a limit."""
        _demand(self.schema == SCHEMA, f"schema {self.schema} is not {SCHEMA}")
        _demand(self.name.isidentifier(), f"{self.name!r} is no name")
        most = LARGEST_SKELETON if self.skeleton else MOST_NODES
        _demand(0 < len(self.nodes) <= most, f"it has {len(self.nodes)} nodes")
        _demand(0 < len(self.variants) <= MOST_VARIANTS, f"it has {len(self.variants)} variants")
        for variant in self.variants:
            _check_variant(self, variant)
        return self


def _check_variant(pattern: MinedPattern, variant: MotifVariant) -> None:
    defined = {*variant.inputs}
    for node in pattern.nodes:
        missing = set(node.inputs) - defined
        _demand(not missing, f"{node.op} reads {min(missing, default='')!r}, which is not there")
        _demand(defined.isdisjoint(node.outputs), f"an output of {node.op} is there already")
        defined.update(node.outputs)
    start = variant.inputs.get(pattern.start)
    _demand(start is not None and not start.weight, f"start {pattern.start!r} is no input")
    _demand(len(variant.attributes) == len(pattern.nodes), "attributes are not one set a node")
    known = {dtype.value for dtype in DType}
    for names in variant.dtypes.values():
        _demand(bool(names) and known.issuperset(names), f"{list(names)} are no dtypes")
    for letter, (usual, least) in variant.sizes.items():
        _demand(0 < least <= MOST_SIZE and 0 < usual <= MOST_SIZE, f"size {letter} is out of range")
    for value in variant.inputs.values():
        _demand(
            value.dtype in variant.dtypes or value.dtype in known, f"{value.dtype!r} is no dtype"
        )
        strange = {letter for size in value.shape for letter in size.letters} - set(variant.sizes)
        _demand(not strange, f"size {min(strange, default='')!r} is not there")


def _demand(condition: bool, problem: str) -> None:
    if not condition:
        raise Unreadable(problem)


# -- files ------------------------------------------------------------------------------------


def motif_files(path: Path) -> list[Path]:
    """The motif files below a folder, or the one file, sorted. Raises: Unreadable if there are
    none.
    """
    if path.is_file():
        return [path.absolute()]
    files = sorted(file for suffix in SUFFIXES for file in path.rglob(f"*{suffix}"))
    if not files:
        problem = "holds no motif file (.json)" if path.is_dir() else "does not exist"
        raise Unreadable(f"--motif-files: {path} {problem}; nnfuzz mine writes such files")
    if len(files) > MOST_FILES:
        raise Unreadable(f"--motif-files: {path} holds more than {MOST_FILES:,} files")
    return [file.absolute() for file in files]


def read_patterns(file: str | Path) -> Iterator[MinedPattern]:
    """The pattern of a .json file, or those of a .jsonl file, one a line. Raises: Unreadable."""
    text = read_text(file)
    lines = text.splitlines() if str(file).endswith(".jsonl") else [text]
    for number, line in enumerate(lines, 1):
        place = f"{file}, line {number}" if len(lines) > 1 else str(file)
        try:
            yield read(MinedPattern, parsed_json(line, place)).checked()
        except Unreadable as error:
            named = str(error).startswith(place)
            raise Unreadable(str(error) if named else f"{place}: {error}") from error
