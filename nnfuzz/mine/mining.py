"""Mines patterns: reads sources in worker processes, chooses cuts, generalises them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nnfuzz.backend.outcome import parsed_pass
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.text import one_line
from nnfuzz.base.untrusted import read_bytes
from nnfuzz.base.writing import as_json
from nnfuzz.ir.view import NodeView
from nnfuzz.mine.cuts import MOST, structure_of
from nnfuzz.mine.jobs import (
    MOST_MODELS,
    CollectBackendTests,
    CutModel,
    Generalise,
    ListStructures,
    RunScript,
    ScriptModels,
)
from nnfuzz.mine.selection import CHANGED_BY, MOST_VARIANTS, Candidates, PatternCandidate
from nnfuzz.mine.sources import ModelSource, builds_models
from nnfuzz.operators.motif_file import (
    MinedPattern,
    MotifVariant,
    motif_files,
    read_patterns,
)
from nnfuzz.sandbox.confinement import confines
from nnfuzz.sandbox.events import DeathKind, Limits, Reply, Trouble, WorkerFault, event_line
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.sandbox import Sandbox, wait
from nnfuzz.sandbox.zygote import remove_tree

A = TypeVar("A")
SERVICE = "nnfuzz.mine.service:mining_service"
PRELOAD = ("numpy", "onnx", "torch", "nnfuzz.mine.service", "nnfuzz.materialize.importing")
READING = Limits(seconds=20.0, memory_bytes=3 << 30)
"""For one model."""
RUNNING = Limits(seconds=180.0, memory_bytes=3 << 30, jobs_per_process=1)
"""For one Python file."""
OWN = Limits(seconds=600.0)
"""For what nnfuzz and onnx do by themselves."""
IMPORTS = 6
"""Folders above a Python file from which it may import, its own among them."""
DEFAULT_MOST = 1_000
MOST_CHARS = 300
"""Of a line about a file that cannot be used."""
Note = Callable[[str], None]
Steps = Callable[[str, int], AbstractContextManager[Callable[[str], None]]]


@dataclass(frozen=True)
class MiningRequest:
    """What is mined. nodes: of the largest cut. most: patterns. python: whether Python files are
    run. mined: whether patterns that are installed are left out. backend: whose passes are watched.
    cache: folder in which judgements on operators are kept for other processes.
    """

    sources: tuple[ModelSource, ...]
    nodes: int = MOST
    most: int = DEFAULT_MOST
    python: bool = False
    mined: bool = True
    backend: BackendSpec | None = None
    cache: Path | None = None


@dataclass(frozen=True)
class Mined:
    """The patterns, and the number of models that they come from.

    problems: files that could not be used.
    """

    patterns: tuple[MinedPattern, ...]
    models: int
    cuts: int
    problems: int = 0


class Miner:
    """Reads sources and makes patterns. Models and scripts are read by workers alone."""

    def __init__(
        self, request: MiningRequest, registry: BackendRegistry, note: Note, steps: Steps
    ) -> None:
        """note: gets a line for each file that cannot be used. steps: shows progress."""
        self.request = request
        self._registry = registry
        self._note = note
        self._steps = steps
        self._candidates = Candidates()
        self._models = self._problems = 0

    def mine(self, known: Collection[str] = ()) -> Mined:
        """The patterns of all sources. known: structures of further patterns to leave out."""
        with ExitStack() as stack:
            folder = stack.enter_context(_temporary())
            arguments = {"cache": str(self.request.cache or "")}
            server = stack.enter_context(closing(ForkServer(PRELOAD, warm=(SERVICE, arguments))))
            self._reader, self._runner, self._own = (
                stack.enter_context(closing(Sandbox(SERVICE, arguments, limits, server=server)))
                for limits in (READING, RUNNING, OWN)
            )
            self._watched = self._backend(stack)
            for number, source in enumerate(self.request.sources):
                own = folder / str(number)
                for problem in source.problems:
                    self._tell("", problem)
                named = [(file, str(file)) for file in source.models]
                self._read(source, [*named, *self._made(source, own)])
            patterns = tuple(self._patterns(known))
        return Mined(patterns, self._models, len(self._candidates), self._problems)

    def _backend(self, stack: ExitStack) -> BackendRunner | None:
        if self.request.backend is None:
            return None
        return stack.enter_context(BackendRunner(self.request.backend, self._registry))

    # -- reading ------------------------------------------------------------------------------

    def _made(self, source: ModelSource, folder: Path) -> Iterator[tuple[Path, str]]:
        """The models that the Python files of a source and the backend tests of onnx make, each
        with its name for messages."""
        scripts = list(filter(self._builds_models, source.scripts))
        if scripts and not self.request.python:
            self._note(f"{source.label}: {len(scripts)} Python files are not run: add --python")
            scripts = []
        if scripts and not confines():
            self._note("this kernel cannot confine Python files: they may write where you may")
        jobs: list[tuple[str, Job[Any]]] = []
        for number, script in enumerate(scripts):
            out = _new(folder / str(number))
            jobs.append(
                (out, RunScript(str(script), out, tuple(map(str, script.parents[1:IMPORTS]))))
            )
        if source.backend_tests:
            out = _new(folder / "backend-tests")
            jobs.append((out, CollectBackendTests(out)))
        with self._steps("scripts", len(jobs)) as advance:
            for out, job in jobs:
                sandbox = self._runner if isinstance(job, RunScript) else self._own
                made = self._answer(sandbox, job, job.about)
                if isinstance(made, ScriptModels) and (made.problem or not made.count):
                    self._tell(job.about, made.problem or "it makes no model")
                found = sorted(Path(out, "models").glob("*.onnx"))[:MOST_MODELS]
                yield from ((file, f"{job.about}, model {n}") for n, file in enumerate(found, 1))
                advance(Path(job.about).name)

    def _builds_models(self, script: Path) -> bool:
        try:
            return builds_models(script)
        except Unreadable as error:
            self._tell(script, str(error))
            return False

    def _read(self, source: ModelSource, files: Sequence[tuple[Path, str]]) -> None:
        """files: each with its name for messages."""
        with self._steps(f"models of {source.label}", len(files)) as advance:
            for file, about in files:
                job = CutModel(str(file), self.request.nodes)
                found = self._answer(self._reader, job, about)
                if found is not None and not found.problem:
                    self._models += 1
                    changed = self._changed(file) if found.cuts else frozenset()
                    self._candidates.add(found.cuts, source.label, source.licence, changed)
                elif found is not None:
                    self._tell(about, found.problem.replace(str(file), about))
                advance(file.name)

    def _changed(self, file: Path) -> CHANGED_BY:
        """The operators that each pass of the backend changes in a model."""
        if self._watched is None:
            return frozenset()
        level = self._watched.backend.levels[-1]
        try:
            passes = self._watched.reported_passes(read_bytes(file), level) or ()
        except Unreadable:
            return frozenset()
        patterns = (parsed_pass(text)[1].lower() for text in passes)
        return frozenset(frozenset(pattern.split("+")) for pattern in patterns if pattern)

    def _answer(self, sandbox: Sandbox, job: Job[A], about: object) -> A | None:
        """The answer of a worker; None, with a note, if it has none."""
        sandbox.submit(job)
        while True:
            for _, event in wait([sandbox]):
                if isinstance(event, Reply):
                    return event.value
                self._tell(about, _reason(event, sandbox.limits))  # type: ignore[arg-type]
                return None

    def _tell(self, about: object, problem: str) -> None:
        """Notes, in one line, why a file cannot be used."""
        self._problems += 1
        line = one_line(problem.partition("\n")[0])[:MOST_CHARS]
        self._note(line if str(about) in line else f"{about}: {line}")

    # -- patterns -----------------------------------------------------------------------------

    def _patterns(self, known: Collection[str]) -> Iterator[MinedPattern]:
        if not len(self._candidates):
            return  # Listing the structures of all motifs takes long.
        listed = self._answer(self._own, ListStructures(self.request.mined), "motifs")
        chosen = self._candidates.chosen({*known, *(listed or ())}, self.request.most)
        with self._steps("patterns", len(chosen)) as advance:
            for candidate in chosen:
                pattern = self._pattern(candidate)
                if pattern is not None:
                    yield pattern
                advance("")

    def _pattern(self, candidate: PatternCandidate) -> MinedPattern | None:
        """The pattern of the candidate's cuts, if one of them is valid."""
        variants: list[MotifVariant] = []
        for cut in candidate.variants:
            source = candidate.origins[0].source
            variant = self._answer(self._reader, Generalise(cut, 0), f"a pattern of {source}")
            if variant is not None and variant not in variants:
                variants.append(variant)
            if len(variants) == MOST_VARIANTS:
                break
        if not variants:
            return None
        nodes = candidate.cut.nodes
        operators = "_".join(dict.fromkeys(node.op for node in nodes))[:60]
        name = f"mined_{operators}_{candidate.cut.form[:8]}"
        found = MinedPattern(name, candidate.cut.start, nodes, tuple(variants), candidate.origins)
        return found.checked()


def _reason(event: Trouble, limits: Limits) -> str:
    """Why a worker has no answer, in words for people who know nothing of workers."""
    if isinstance(event, WorkerFault):
        return event_line(event)
    if event.kind is DeathKind.TIMEOUT:
        return f"it takes longer than {limits.seconds:.0f} s"
    if event.kind is DeathKind.MEMORY:
        return f"it takes more than {limits.memory_bytes / (1 << 30):.1f} GiB of memory"
    if event.kind is DeathKind.EXIT:
        return f"it ended its process, with exit code {event.exit_code}"
    if event.note:
        return f"it disturbed its process: {event.note}"
    return f"it ended its process by {event.signal}"


@contextmanager
def _temporary() -> Iterator[Path]:
    """A new folder, which is removed at the end with all that scripts have left there."""
    folder = Path(tempfile.mkdtemp(prefix="nnfuzz-mine-"))
    try:
        yield folder
    finally:
        remove_tree(folder)


def _new(folder: Path) -> str:
    folder.mkdir(parents=True)
    return str(folder)


# -- motif files ------------------------------------------------------------------------------


def known_structures(folder: Path) -> set[str]:
    """The structures of the patterns in the motif files of a folder; none if it has no such files.

    Raises: Unreadable if a file is damaged.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        return set()
    patterns = (pattern for file in motif_files(folder) for pattern in read_patterns(file))
    return {structure(pattern) for pattern in patterns}


def structure(pattern: MinedPattern) -> str:
    """The digest of its operators and edges, as that of cuts (nnfuzz.mine.cuts.Cut.structure)."""
    nodes = [NodeView(node.op, node.inputs, node.outputs) for node in pattern.nodes]
    made = {name for node in nodes for name in node.outputs}
    return structure_of(nodes, {name for node in nodes for name in node.inputs} - made)


def write_patterns(patterns: Sequence[MinedPattern], folder: Path) -> None:
    """Writes a motif file for each pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in patterns:
        text = json.dumps(as_json(pattern), indent=1)
        (folder / f"{pattern.name}.json").write_text(text + "\n", encoding="utf-8")


def write_library(patterns: Sequence[MinedPattern], file: Path) -> None:
    """Writes all patterns into one file, a line each, without the fields that are at their
    defaults.
    """
    lines = (json.dumps(as_json(pattern), separators=(",", ":")) for pattern in patterns)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
