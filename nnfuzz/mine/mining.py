"""Mines patterns: reads sources in worker processes, chooses cuts, generalises them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from nnfuzz.backend.outcome import parsed_pass
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.text import visible
from nnfuzz.base.untrusted import read_bytes
from nnfuzz.base.writing import as_json
from nnfuzz.ir.view import NodeView
from nnfuzz.mine.cuts import MOST, structure_of
from nnfuzz.mine.jobs import (
    CollectBackendTests,
    CutModel,
    Generalise,
    ListStructures,
    RunScript,
)
from nnfuzz.mine.selection import CHANGED_BY, MOST_VARIANTS, Candidates, PatternCandidate
from nnfuzz.mine.sources import ModelSource, builds_models
from nnfuzz.operators.motif_file import (
    MinedPattern,
    MotifVariant,
    motif_files,
    read_patterns,
)
from nnfuzz.sandbox.events import Limits, Reply, event_line
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.sandbox import Sandbox, wait

A = TypeVar("A")
SERVICE = "nnfuzz.mine.service:mining_service"
PRELOAD = ("numpy", "onnx", "torch", "nnfuzz.mine.service", "nnfuzz.materialize.importing")
READING = Limits(seconds=20.0, memory_bytes=3 << 30)
"""For one model."""
RUNNING = Limits(seconds=180.0, memory_bytes=3 << 30, jobs_per_process=1)
"""For one Python file."""
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
    """

    sources: tuple[ModelSource, ...]
    nodes: int = MOST
    most: int = DEFAULT_MOST
    python: bool = False
    mined: bool = True
    backend: BackendSpec | None = None


@dataclass(frozen=True)
class Mined:
    """The patterns, and the number of models that they come from."""

    patterns: tuple[MinedPattern, ...]
    models: int
    cuts: int


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
        self._models = 0

    def mine(self, known: Collection[str] = ()) -> Mined:
        """The patterns of all sources. known: structures of further patterns to leave out."""
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnfuzz-mine-")))
            server = stack.enter_context(closing(ForkServer(PRELOAD, warm=(SERVICE, {}))))
            self._reader, self._runner = (
                stack.enter_context(closing(Sandbox(SERVICE, limits=limits, server=server)))
                for limits in (READING, RUNNING)
            )
            self._watched = self._backend(stack)
            for number, source in enumerate(self.request.sources):
                own = folder / str(number)
                self._read(source, [*source.models, *self._made(source, own)])
            patterns = tuple(self._patterns(known))
        return Mined(patterns, self._models, len(self._candidates))

    def _backend(self, stack: ExitStack) -> BackendRunner | None:
        if self.request.backend is None:
            return None
        return stack.enter_context(BackendRunner(self.request.backend, self._registry))

    # -- reading ------------------------------------------------------------------------------

    def _made(self, source: ModelSource, folder: Path) -> Iterator[Path]:
        """The models that the Python files of a source and the backend tests of onnx make."""
        scripts = [script for script in source.scripts if builds_models(script)]
        if scripts and not self.request.python:
            self._note(f"{source.label}: {len(scripts)} Python files are not run: add --python")
            scripts = []
        jobs: list[tuple[str, Job[int]]] = []
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
                self._answer(self._runner, job, job.about)
                yield from sorted(Path(out, "models").glob("*.onnx"))
                advance(Path(job.about).name)

    def _read(self, source: ModelSource, files: Sequence[Path]) -> None:
        with self._steps(f"models of {source.label}", len(files)) as advance:
            for file in files:
                found = self._answer(self._reader, CutModel(str(file), self.request.nodes), file)
                if found is not None and not found.problem:
                    self._models += 1
                    changed = self._changed(file) if found.cuts else frozenset()
                    self._candidates.add(found.cuts, source.label, source.licence, changed)
                elif found is not None:
                    self._tell(file, found.problem)
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
                self._tell(about, event_line(event))  # type: ignore[arg-type]
                return None

    def _tell(self, about: object, problem: str) -> None:
        """Notes, in one line, why a file cannot be used."""
        line = visible(problem.partition("\n")[0])[:MOST_CHARS]
        self._note(line if str(about) in line else f"{about}: {line}")

    # -- patterns -----------------------------------------------------------------------------

    def _patterns(self, known: Collection[str]) -> Iterator[MinedPattern]:
        if not len(self._candidates):
            return  # Listing the structures of all motifs takes long.
        listed = self._answer(self._reader, ListStructures(self.request.mined), "motifs")
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
            variant = self._answer(self._reader, Generalise(cut, 0), "a cut")
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
