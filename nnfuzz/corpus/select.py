"""Makes a corpus of chosen tests: measures them, selects greedily, and copies.

The next test is the one with the most new coverage. Each kind of coverage has the same weight,
which its features share. So the few coarse features, such as operators, come before the many fine
ones, and no kind needs a factor. Greedy choice reaches at least 1 - 1/e of the best possible
coverage by so many models (Nemhauser, Wolsey, Fisher 1978).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nnfuzz.base.external_data import write_model
from nnfuzz.base.files import atomic_folder
from nnfuzz.base.reading import JsonObject, Unreadable, read
from nnfuzz.base.untrusted import below, read_bytes, read_json
from nnfuzz.corpus.generate import MANIFEST, begin, check_unused, write_manifest
from nnfuzz.corpus.layout import (
    CASE,
    LICENSE,
    MODEL,
    RUNNER_CONFIG,
    TOLERANCES,
    WEIGHTS,
    NotTensors,
    TestFolder,
    find_tests,
)
from nnfuzz.ir.features import features
from nnfuzz.ir.view import GraphView
from nnfuzz.materialize.model_graph import model_graph
from nnfuzz.records.observer import Note, Steps

KINDS = {
    "operator": "operators",
    "dtype": "operators with the dtypes of their inputs",
    "rank": "operators with the rank of their first input",
    "value": "values of attributes, per operator and dtypes",
    "edge": "pairs of operators of which one reads the other",
    "vertex": "operators with attributes and shapes",
}
"""Kinds of features, with descriptions."""
Feature = tuple[str, str]
"""A kind and a name."""


def covered(graph: GraphView) -> frozenset[Feature]:
    """The features of a model."""
    own = features(graph)
    named = {
        "operator": own.operators(),
        "dtype": (f"{op}({dtypes})" for op, dtypes in own.operator_dtypes()),
        "rank": (f"{op} of rank {rank}" for op, rank in own.operator_ranks()),
        "value": own.attribute_values(),
        "edge": (f"{a}->{b}" for a, b in own.operator_edges()),
        "vertex": own.vertices(),
    }
    return frozenset((kind, name) for kind, names in named.items() for name in names)


def coverage_table(
    kept: Sequence[Iterable[Feature]], all_: Sequence[Iterable[Feature]]
) -> dict[str, list[int]]:
    """The number of different features by kind: those of the kept tests, and those of all tests."""
    some, whole = (Counter(kind for kind, _ in set().union(*sets)) for sets in (kept, all_))
    return {kind: [some[kind], whole[kind]] for kind in KINDS if whole[kind]}


@dataclass(frozen=True)
class SelectableModel:
    """A test that may be chosen. test: its folder, no part of the choice."""

    name: str
    features: frozenset[Feature]
    test: TestFolder = field(default=TestFolder(Path(), ""), compare=False)


def choose(candidates: Sequence[SelectableModel], count: int) -> list[SelectableModel]:
    """Chooses at most `count` candidates while one adds coverage; returns them in that order."""
    every = frozenset[Feature]().union(*(c.features for c in candidates))
    sizes = Counter(kind for kind, _ in every)
    missing, left = set(every), list(candidates)
    chosen: list[SelectableModel] = []

    def value(candidate: SelectableModel) -> float:
        """The coverage that a candidate would add."""
        return math.fsum(1 / sizes[kind] for kind, _ in candidate.features & missing)

    while len(chosen) < count and (left := [c for c in left if c.features & missing]):
        best = max(left, key=value)
        chosen.append(best)
        missing -= best.features
    return chosen


SCHEMA = 1
FILES = (MODEL, CASE, WEIGHTS, TOLERANCES, RUNNER_CONFIG)
DATA = "test_data_set_*/*.pb"


def measured(test: TestFolder, name: str) -> SelectableModel:
    """A test with its features. Raises: NotTensors, Unreadable."""
    case = test.case()
    graph = case.graph if case else model_graph(test.path / MODEL)
    return SelectableModel(name, covered(graph), test)


def copy_test(test: TestFolder, place: Path) -> None:
    """Raises: Unreadable, FileExistsError, OSError."""
    with atomic_folder(place) as made:
        for path in _files(test):
            file = made / path.relative_to(test.path)
            file.parent.mkdir(exist_ok=True)
            if path.name == MODEL:
                write_model(test.model(), file)
            else:
                file.write_bytes(read_bytes(path))


def _files(test: TestFolder) -> list[Path]:
    """The files of a test, all of them inside of its folder. Raises: Unreadable."""
    files = [test.path / name for name in FILES if (test.path / name).exists()]
    files += sorted(test.path.glob(DATA))
    return [below(test.path, str(path.relative_to(test.path))) for path in files]


def names_for(tests: Iterable[TestFolder]) -> Iterator[tuple[TestFolder, str]]:
    """Gives each test a name of its own that begins with "test_", as ONNX's runner expects."""
    taken: set[str] = set()
    for test in tests:
        plain = re.sub(r"[^\w.-]+", "_", test.path.name)
        stem = plain if plain.startswith("test_") else f"test_{plain}"
        name, number = stem, 1
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(name)
        yield test, name


@dataclass(frozen=True, eq=False)
class Selection:
    """The result of a selection. sources: how many tests it was made from. coverage: by kind, the
    features that are kept and all features.
    """

    tests: Sequence[str]
    sources: int
    coverage: Mapping[str, Sequence[int]]


def _gathered(folders: Sequence[Path], note: Note, steps: Steps) -> list[SelectableModel]:
    """The tests in folders with their coverage. note: receives why a test is left out.

    Raises: Unreadable if there is none, or one is damaged.
    """
    tests = [test for folder in folders for test in find_tests(folder)]
    if not tests:
        raise Unreadable(f"there is no test in {', '.join(map(str, folders))}")
    sources = []
    with steps("models", len(tests)) as advance:
        for test, name in names_for(tests):
            try:
                sources.append(measured(test, name))
            except NotTensors as error:
                note(f"{test.name} is left out: {error}")
            advance("")
    return sources


def select(
    out: Path,
    folders: Sequence[Path],
    count: int,
    script: str,
    note: Note,
    steps: Steps,
) -> Selection:
    """Copies those tests in folders into a new one that cover most. script: test_models.py.

    Raises: Unreadable if there is no test, or `out` is in use; OSError.
    """
    check_unused(out)
    sources = _gathered(folders, note, steps)
    chosen = choose(sources, count)
    about = {"schema": SCHEMA, "license": LICENSE, "sources": list(map(provenance, folders))}
    begin(out, script)
    for model in chosen:
        copy_test(model.test, out / model.name)
    coverage = coverage_table([c.features for c in chosen], [s.features for s in sources])
    names = [c.name for c in chosen]
    write_manifest(out, {**about, "tests": names, "coverage": coverage})
    return Selection(names, len(sources), coverage)


def provenance(folder: Path) -> dict[str, object]:
    """The fields of a corpus's manifest on the origin of its tests, with the name of the folder.

    Raises: Unreadable.
    """
    file = folder / MANIFEST
    if not file.exists():
        return {"folder": folder.name}
    manifest = read(JsonObject, read_json(file))
    wanted = ("license", "seed", "config", "versions", "sources")
    return {"folder": folder.name, **{k: manifest[k] for k in wanted if k in manifest}}
