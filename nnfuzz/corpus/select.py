"""Makes a corpus of chosen tests: measures them, selects greedily, and copies.

The next test is the one with the most new coverage for its cost. Each kind of coverage has the same
weight, which its features share. So the few coarse features, such as operators, come before the
many fine ones, and no kind needs a factor. The cost of a test is the largest share of a budget that
it uses. Greedy choice reaches at least 1 - 1/e of the best possible coverage under a budget of
models (Nemhauser, Wolsey, Fisher 1978).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from nnfuzz.backend.outcome import OutcomeKind, parsed_pass
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.external_data import write_model
from nnfuzz.base.files import atomic_folder
from nnfuzz.base.reading import JsonObject, Unreadable, read
from nnfuzz.base.untrusted import below, read_bytes, read_json
from nnfuzz.corpus.generate import (
    MANIFEST,
    begin,
    check_unused,
    models_under_pytest,
    write_manifest,
)
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
    "pass": "passes of a compiler that change something",
}
"""Kinds of features, with descriptions."""
Feature = tuple[str, str]
"""A kind and a name."""


def covered(graph: GraphView, passes: Iterable[str] = ()) -> frozenset[Feature]:
    """The features of a model. passes: written as "COMPILER: PASS"."""
    own = features(graph)
    named = {
        "operator": own.operators(),
        "dtype": (f"{op}({dtypes})" for op, dtypes in own.operator_dtypes()),
        "rank": (f"{op} of rank {rank}" for op, rank in own.operator_ranks()),
        "value": own.attribute_values(),
        "edge": (f"{a}->{b}" for a, b in own.operator_edges()),
        "vertex": own.vertices(),
        "pass": passes,
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
    """A test that may be chosen. size: in bytes. seconds: spent in the compiler. test: its folder,
    which is no part of the choice.
    """

    name: str
    features: frozenset[Feature]
    size: int = 0
    seconds: float = 0.0
    test: TestFolder = field(default=TestFolder(Path(), ""), compare=False)


@dataclass(frozen=True)
class Budget:
    """The largest number of models, of bytes in their files, and of seconds in the compiler."""

    count: float = math.inf
    size: float = math.inf
    seconds: float = math.inf

    def cost(self, model: SelectableModel) -> float:
        """The largest share of a budget that a test uses; 1 for every test without a budget."""
        shares = (1 / self.count, model.size / self.size, model.seconds / self.seconds)
        return max(shares) or 1.0

    def holds(self, models: Sequence[SelectableModel]) -> bool:
        """Whether no part of the budget is exceeded."""
        size, seconds = sum(m.size for m in models), sum(m.seconds for m in models)
        return len(models) <= self.count and size <= self.size and seconds <= self.seconds


def choose(candidates: Sequence[SelectableModel], budget: Budget) -> list[SelectableModel]:
    """Chooses candidates while one adds coverage and fits; returns them in that order."""
    every = frozenset[Feature]().union(*(c.features for c in candidates))
    sizes = Counter(kind for kind, _ in every)
    missing, left = set(every), list(candidates)
    chosen: list[SelectableModel] = []

    def value(candidate: SelectableModel) -> float:
        """The coverage that a candidate would add, for its cost."""
        new = candidate.features & missing
        return math.fsum(1 / sizes[kind] for kind, _ in new) / budget.cost(candidate)

    while left := [c for c in left if c.features & missing and budget.holds([*chosen, c])]:
        best = max(left, key=value)
        chosen.append(best)
        missing -= best.features
    return chosen


SCHEMA = 1
FILES = (MODEL, CASE, WEIGHTS, TOLERANCES, RUNNER_CONFIG)
DATA = "test_data_set_*/*.pb"


def measured(
    test: TestFolder, name: str, runners: Sequence[BackendRunner]
) -> SelectableModel | None:
    """A test with its features, size and time; None if every compiler calls it unsupported.

    Raises: Unreadable, RunnerError.
    """
    case = test.case()
    graph = case.graph if case else model_graph(test.path / MODEL)
    seconds, passes, refused = 0.0, [], 0
    for runner in runners:
        model = case.source(runner.reads) if case else test.model()
        outcomes = runner.run(model, test.data_sets()[0].inputs, watch=True)
        refused += all(o.kind is OutcomeKind.UNSUPPORTED for o in outcomes)
        seconds += sum(sum(o.seconds.values()) for o in outcomes)
        fired = {parsed_pass(written)[0] for written in outcomes[-1].passes or ()}
        passes += [f"{runner.name}: {name}" for name in sorted(fired)]
    if runners and refused == len(runners):
        return None
    size = sum(path.stat().st_size for path in _files(test))
    return SelectableModel(name, covered(graph, passes), size, seconds, test)


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
    size: int
    seconds: float
    coverage: Mapping[str, Sequence[int]]


def _gathered(
    folders: Sequence[Path], runners: Sequence[BackendRunner], note: Note, steps: Steps
) -> list[SelectableModel]:
    """The tests in folders with their coverage, measured on compilers. note: receives why a test is
    left out.

    Raises: Unreadable if there is none; Unreadable, RunnerError.
    """
    tests = [test for folder in folders for test in find_tests(folder)]
    if not tests:
        raise Unreadable(f"there is no test in {', '.join(map(str, folders))}")
    sources, refused = [], 0
    with steps("models", len(tests)) as advance:
        for test, name in names_for(tests):
            source = None
            try:
                source = measured(test, name, runners)
            except NotTensors as error:
                note(f"{test.name} is left out: {error}")
            sources += [source] if source else []
            refused += source is None
            advance(f"{refused} left out" if refused else "")
    return sources


def select(
    out: Path,
    folders: Sequence[Path],
    budget: Budget,
    registry: BackendRegistry,
    specs: Sequence[BackendSpec],
    note: Note,
    steps: Steps,
) -> Selection:
    """Copies those tests in folders into a new one that cover most; they run on some backends.

    Raises: Unreadable if there is no test, `out` is in use, or nothing fits; Unreadable,
    RunnerError, OSError.
    """
    check_unused(out)  # before compilers measure every model
    with ExitStack() as stack:
        runners = [stack.enter_context(BackendRunner(spec, registry)) for spec in specs]
        sources = _gathered(folders, runners, note, steps)
    chosen = choose(sources, budget)
    if not chosen:
        raise Unreadable("not a single test fits into the budget")
    about = {"schema": SCHEMA, "license": LICENSE, "sources": list(map(provenance, folders))}
    begin(out, models_under_pytest(registry, specs, note))
    for model in chosen:
        copy_test(model.test, out / model.name)
    result = Selection(
        [c.name for c in chosen],
        len(sources),
        sum(c.size for c in chosen),
        sum(c.seconds for c in chosen),
        coverage_table([c.features for c in chosen], [s.features for s in sources]),
    )
    selected = {
        "tests": list(result.tests),
        "bytes": result.size,
        "coverage": dict(result.coverage),
    }
    write_manifest(out, {**about, **selected})
    return result


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
