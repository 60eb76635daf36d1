"""Models among which `nnfuzz select` chooses: tests in folders."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.corpus.generate import check_unused
from nnfuzz.corpus.layout import NotTensors, find_tests
from nnfuzz.corpus.pick import (
    Selection,
    SourceTest,
    names_for,
    pick,
    provenance,
)
from nnfuzz.corpus.selection import Budget
from nnfuzz.library.corpus import models_under_pytest
from nnfuzz.library.onnx_graph import model_graph
from nnfuzz.library.settings import chosen_backends
from nnfuzz.library.steps import Note, Steps, ignore, no_steps
from nnfuzz.records.config import ConfigError


@dataclass(frozen=True)
class Gathered:
    """Models to choose from.

    sources: with their coverage. about: where all of them come from. script: the program that runs
    them under pytest.
    """

    sources: list[SourceTest]
    about: dict[str, object]
    script: str

    def __len__(self) -> int:
        return len(self.sources)

    def select(self, out: Path, budget: Budget) -> Selection:
        """Copies those that cover most into a new folder. Raises: OSError."""
        return pick(out, self.sources, budget, self.about, self.script)


def gather(
    out: Path,
    models: Sequence[Path],
    backends: Sequence[str] = (),
    plugins: Sequence[Path] = (),
    note: Note = ignore,
    steps: Steps = no_steps,
) -> Gathered:
    """Reads the tests in folders and runs them on the backends.

    Raises: ConfigError if there is no test, or `out` is in use; Unreadable, RunnerError.
    """
    check_unused(out)  # before compilers measure every model
    registry = BackendRegistry.discover(plugins)
    specs = chosen_backends(registry, list(backends)) if backends else ()
    sources = _sources(models, registry, specs, note, steps)
    about = [provenance(folder) for folder in models]
    script = models_under_pytest(registry, specs, note)
    return Gathered(sources, {"sources": about}, script)


def _sources(
    folders: Sequence[Path],
    registry: BackendRegistry,
    specs: Sequence[BackendSpec],
    note: Note,
    steps: Steps,
) -> list[SourceTest]:
    """The tests with their coverage."""
    tests = [test for folder in folders for test in find_tests(folder)]
    if not tests:
        raise ConfigError(f"there is no test in {', '.join(map(str, folders))}")
    sources, refused = [], 0
    with ExitStack() as stack, steps("models", len(tests)) as advance:
        runners = [stack.enter_context(BackendRunner(spec, registry)) for spec in specs]
        for test, name in names_for(tests):
            source = None
            try:
                source = SourceTest.of(test, name, model_graph, runners)
            except NotTensors as error:
                note(f"{test.name} is left out: {error}")
            sources += [source] if source else []
            refused += source is None
            advance(f"{refused} left out" if refused else "")
    return sources
