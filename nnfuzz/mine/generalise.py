"""From a cut with the numbers of its model to a variant with letters for sizes and dtypes.

A size gets a letter if the pattern is valid with other numbers in its place, by the operator specs;
sizes that were equal get the same letter, multiples a coefficient or a product. Dtypes get letters
likewise. What has to be as it was stays a number.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nnfuzz.ir.dtypes import FLOATS, INTS, DType
from nnfuzz.ir.graph import Graph
from nnfuzz.mine.cuts import Cut
from nnfuzz.operators.draw import Sizes
from nnfuzz.operators.mined import Lookup, graph_of
from nnfuzz.operators.motif_file import (
    MotifVariant,
    PatternInput,
    PatternNode,
    Size,
)

LIMITS = Sizes()
SMALL = (16, 8, 4, 2)
"""The sizes of a pattern are at most so large: the first of these with which it is affordable."""
JOINT = 6
"""Random choices of all letters at once with which a variant is tried."""
BATCH = "n"
LETTERS = string.ascii_lowercase.replace(BATCH, "")
Place = tuple[object, ...]
"""A dimension ("x0", 1), or an integer inside of an attribute (3, "perm", 0)."""


def generalised(cut: Cut, lookup: Lookup, rng: random.Random) -> MotifVariant | None:
    """The variant of a cut; None if it is not valid or too large for a generated graph."""
    draft = _start(cut, lookup)
    if not draft.valid({}):
        return None
    for value in sorted({size.coefficient for size in draft.sizes.values()} - {0, 1}):
        draft = _with_letter(draft, value)
    draft = _joint(_with_dtypes(_small(_with_batch(draft))), rng)
    graph = draft.graph({})
    return draft.variant() if graph is not None and _affordable(graph) else None


@dataclass(frozen=True)
class _Draft:
    """A variant in the making. usual: a value for each letter; dtypes: those of each dtype letter.

    least: the least valid value. sizes: by place.
    """

    nodes: tuple[PatternNode, ...]
    lookup: Lookup
    inputs: Mapping[str, PatternInput]
    attributes: tuple[Mapping[str, Any], ...]
    sizes: Mapping[Place, Size]
    usual: Mapping[str, int]
    least: Mapping[str, int]
    dtypes: Mapping[str, tuple[str, ...]]

    def variant(self) -> MotifVariant:
        inputs = {
            name: replace(
                value, shape=tuple(self.sizes[name, axis] for axis in range(len(value.shape)))
            )
            for name, value in self.inputs.items()
        }
        attributes = tuple(
            {name: self._leaf(value, (i, name)) for name, value in given.items()}
            for i, given in enumerate(self.attributes)
        )
        sizes = {letter: (value, self.least[letter]) for letter, value in self.usual.items()}
        return MotifVariant(inputs, attributes, self.dtypes, sizes)

    def _leaf(self, value: Any, place: Place) -> Any:
        if isinstance(value, list | tuple):
            return [self._leaf(v, (*place, i)) for i, v in enumerate(value)]
        size = self.sizes.get(place)
        return value if size is None or not size.letters else {"size": str(size)}

    def graph(
        self, sizes: Mapping[str, int], dtypes: Mapping[str, str] | None = None
    ) -> Graph | None:
        """The graph with other values for some letters; None if it is not valid."""
        chosen = {
            letter: DType((dtypes or {}).get(letter, n[0])) for letter, n in self.dtypes.items()
        }
        try:
            made = graph_of(
                self.nodes, self.variant(), self.lookup, {**self.usual, **sizes}, chosen
            )
            made.verify()
        except Exception:  # whatever a spec raises for attributes that make no sense
            return None
        return made if all(_holds(made, name) for name in made.prescribed) else None

    def valid(self, sizes: Mapping[str, int]) -> bool:
        graph = self.graph(sizes)
        return graph is not None and all(
            dim > 0 for value in graph.values.values() for dim in value.type.sizes
        )


def _holds(graph: Graph, name: str) -> bool:
    """Whether the dtype of a constant has its value."""
    dtype, value = graph.type(name).dtype, graph.prescribed[name][0]
    lo, hi = dtype.limits
    return lo <= value <= hi and (dtype.is_float or value == int(value))


def _start(cut: Cut, lookup: Lookup) -> _Draft:
    part, inputs, sizes = cut.part, dict[str, PatternInput](), dict[Place, Size]()
    for name in (*part.inputs, *part.weights):
        shape = tuple(Size(dim) for dim in part.shapes[name])
        constant = part.prescribed.get(name, (None,))[0]
        weight = name in part.weights
        inputs[name] = PatternInput(part.dtypes[name], shape, weight, constant)
        sizes.update({(name, axis): size for axis, size in enumerate(shape)})
    attributes = tuple(dict(node.attributes) for node in part.nodes)
    for i, given in enumerate(attributes):
        for name, value in given.items():
            sizes.update({place: Size(number) for place, number in _integers(value, (i, name))})
    return _Draft(cut.nodes, lookup, inputs, attributes, sizes, {}, {}, {})


def _integers(value: Any, place: Place) -> Iterator[tuple[Place, int]]:
    """The integers of at least 2 inside of an attribute, and a 1 at the head of a list; others are
    rarely sizes.
    """
    if isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from _integers(part, (*place, i))
    elif type(value) is int and (value >= 2 or (value == 1 and place[-1] == 0)):
        yield place, value


# -- sizes ------------------------------------------------------------------------------------


def _with_letter(draft: _Draft, value: int) -> _Draft:
    """The draft with a new letter for a number, if the pattern is valid with other numbers."""
    letter = next((x for x in LETTERS if x not in draft.usual), "")
    for places in _choices(draft, value) if letter else ():
        trial = _replaced(draft, value, letter, places)
        if _is_free(trial, letter):
            dims = _dims(places)
            if len(dims) < len(places) and _is_free(_replaced(draft, value, letter, dims), letter):
                return draft  # The attributes are of that size by chance.
            below = [number for number in (1, 2, 3) if number < value]
            lowest = next((n for n in below if trial.valid({letter: n})), value)
            return replace(trial, least={**trial.least, letter: lowest})
    return draft


def _replaced(draft: _Draft, value: int, letter: str, places: Iterable[Place]) -> _Draft:
    """The draft with a letter in place of a number, or of a factor, at some places."""
    sizes = {**draft.sizes, **{p: _divided(draft.sizes[p], value, letter) for p in places}}
    usual, least = {**draft.usual, letter: value}, {**draft.least, letter: value}
    return replace(draft, sizes=sizes, usual=usual, least=least)


def _is_free(draft: _Draft, letter: str) -> bool:
    """Whether the pattern is valid with numbers in place of a letter that are larger than usual."""
    value = draft.usual[letter]
    return all(draft.valid({letter: number}) for number in (value + 1, 2 * value + 3))


def _with_batch(draft: _Draft) -> _Draft:
    """The draft with a letter for a first dimension of 1, which is the batch of most models."""
    first = [
        place
        for place, size in draft.sizes.items()
        if size == Size(1) and place[-1] == 0 and not _is_weight(draft, place)
    ]
    dims = _dims(first)
    for places in (first, dims) if dims else ():
        sizes = {**draft.sizes, **dict.fromkeys(places, Size(1, (BATCH,)))}
        usual, least = {**draft.usual, BATCH: 1}, {**draft.least, BATCH: 1}
        trial = replace(draft, sizes=sizes, usual=usual, least=least)
        if BATCH not in draft.usual and all(trial.valid({BATCH: number}) for number in (2, 5)):
            return trial
    return draft


def _is_weight(draft: _Draft, place: Place) -> bool:
    return isinstance(place[0], str) and draft.inputs[place[0]].weight


def _choices(draft: _Draft, value: int) -> Iterator[list[Place]]:
    """Places that may share a letter, the fewest first; each choice has a dimension."""
    equal = [p for p, size in draft.sizes.items() if size.coefficient == value]
    multiples: dict[int, list[Place]] = {}
    for place, size in draft.sizes.items():
        if size.coefficient > value and size.coefficient % value == 0:
            multiples.setdefault(size.coefficient, []).append(place)
    every = [place for places in multiples.values() for place in places]
    some = [*multiples.values(), *([every] if len(multiples) > 1 else [])]
    seen: list[list[Place]] = []
    attributes = dict.fromkeys(place[:2] for place in equal if place not in _dims(equal))
    own = [_dims(equal)]
    own += [[p for p in equal if p in own[0] or p[:2] == name] for name in attributes]
    own += [equal]
    for more in ([], *(_dims(places) for places in some), *some):
        for places in ([*places, *more] for places in own if places):
            if _dims(places) and places not in seen:
                seen.append(places)
                yield places


def _dims(places: Iterable[Place]) -> list[Place]:
    return [place for place in places if isinstance(place[0], str)]


def _divided(size: Size, value: int, letter: str) -> Size:
    return Size(size.coefficient // value, (*size.letters, letter))


def _small(draft: _Draft) -> _Draft:
    """The draft with small values for letters whose values in the model make it large."""
    for most in SMALL:
        for letter, value in draft.usual.items():
            if value > most:
                below = range(most, draft.least[letter] - 1, -1)
                number = next((n for n in below if draft.valid({letter: n})), value)
                draft = replace(draft, usual={**draft.usual, letter: number})
        graph = draft.graph({})
        if graph is not None and _affordable(graph):
            break
    return draft


def _joint(draft: _Draft, rng: random.Random) -> _Draft:
    """The draft with fewer letters, until most choices of values for all of them are valid."""
    while draft.usual:
        trials = (
            {x: rng.randint(draft.least[x], max(12, draft.usual[x])) for x in draft.usual}
            for _ in range(JOINT)
        )
        if sum(map(draft.valid, trials)) * 2 >= JOINT:
            return draft
        draft = _without(draft, list(draft.usual)[-1])
    return draft


def _without(draft: _Draft, letter: str) -> _Draft:
    """The draft with a number in place of a letter."""
    value = draft.usual[letter]
    sizes = {
        place: Size(
            size.coefficient * value ** size.letters.count(letter),
            tuple(x for x in size.letters if x != letter),
        )
        for place, size in draft.sizes.items()
    }
    attributes = tuple(
        {name: _written(given, (i, name), sizes) for name, given in node.items()}
        for i, node in enumerate(draft.attributes)
    )
    usual = {x: n for x, n in draft.usual.items() if x != letter}
    return replace(draft, sizes=sizes, attributes=attributes, usual=usual)


def _written(value: Any, place: Place, sizes: Mapping[Place, Size]) -> Any:
    if isinstance(value, list | tuple):
        return [_written(v, (*place, i), sizes) for i, v in enumerate(value)]
    size = sizes.get(place)
    return value if size is None or size.letters else size.coefficient


def _affordable(graph: Graph) -> bool:
    return all(
        max(t.sizes, default=1) <= LIMITS.dim(t.rank) and t.elements <= LIMITS.max_numel
        for t in (value.type for value in graph.values.values())
    ) and all(n.op.cost(*graph.types(n.inputs)) <= LIMITS.max_flops for n in graph.nodes)


# -- dtypes -----------------------------------------------------------------------------------


def _with_dtypes(draft: _Draft) -> _Draft:
    """The draft with a letter for each dtype of its inputs that may be another one of its kind."""
    for dtype in dict.fromkeys(DType(value.dtype) for value in draft.inputs.values()):
        for rewrite in (_casts_too, _inputs_alone):
            letter = f"T{len(draft.dtypes)}"
            named = rewrite(draft, dtype, letter)
            others = [d for d in _kind(dtype) if named.graph({}, {letter: d.value}) is not None]
            if others:
                names = (dtype.value, *(d.value for d in others))
                draft = replace(named, dtypes={**named.dtypes, letter: names})
                break
    return draft


def _kind(dtype: DType) -> list[DType]:
    """The other dtypes of the same kind: floating, integer."""
    kinds = [FLOATS, INTS]
    return [d for kind in kinds if dtype in kind for d in kind if d is not dtype]


def _inputs_alone(draft: _Draft, dtype: DType, letter: str) -> _Draft:
    inputs = {
        name: replace(value, dtype=letter) if value.dtype == dtype.value else value
        for name, value in draft.inputs.items()
    }
    return replace(draft, inputs=inputs, dtypes={**draft.dtypes, letter: (dtype.value,)})


def _casts_too(draft: _Draft, dtype: DType, letter: str) -> _Draft:
    attributes = tuple(
        {n: {"dtype": letter} if v == {"dtype": dtype.value} else v for n, v in node.items()}
        for node in draft.attributes
    )
    return replace(_inputs_alone(draft, dtype, letter), attributes=attributes)
