"""`nnfuzz fuzz --focus`: every model touches what a change is about.

Operators that are named are a setting of generation (nnfuzz.generate.focus); for passes there are
seed models that they change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from nnfuzz.backend.contract import Backend, meant, suggest
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.files import cache_folder
from nnfuzz.base.writing import as_json
from nnfuzz.corpus.layout import Entry
from nnfuzz.corpus.producers import Producers
from nnfuzz.library.case import operator_registry
from nnfuzz.records.config import ConfigError
from nnfuzz.records.observer import Note
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.identity import Numbered

NEARLY = 0.85
"""Likeness (difflib's ratio) of a misspelt name to an operator's; no known pass is as close."""
PER_PASS, TRIED = 16, 300
"""Models that a pass changes, and how many are looked through for them: a few seconds with a
compiler of milliseconds per model."""


def focused(
    names: Sequence[str],
    registry: BackendRegistry,
    specs: Sequence[BackendSpec],
    config: CaseConfig,
    folder: Path,
    note: Note,
) -> Path:
    """A folder with models that are each changed by one of the passes by name.

    config: of the campaign, with one exporter. folder: where such folders are kept.
    Raises: ConfigError for a name of no pass; RunnerError, ProducerSettingsError.
    """
    with ExitStack() as stack:
        producers = stack.enter_context(Producers(0, as_json(config), 1, cache=cache_folder()))
        operators = operator_registry(config.plugins)
        runners = [stack.enter_context(BackendRunner(s, registry)) for s in specs]
        groups = _changed(names, producers, runners, operators)
    models = dict.fromkeys(case.model for cases in groups for case in cases)
    digest = hashlib.sha256(b"".join(hashlib.sha256(m).digest() for m in models)).hexdigest()[:16]
    place = folder / digest
    place.mkdir(parents=True, exist_ok=True)
    for number, model in enumerate(models):
        (place / f"{number:03}.onnx").write_bytes(model)
    note(f"--focus {','.join(names)}: every model starts from one of the {len(models)} in {place}")
    return place


def sorted_out(
    names: Sequence[str],
    registry: BackendRegistry,
    specs: Sequence[BackendSpec],
    plugins: Sequence[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The operators of some names with their modes (OpSpec.plain), and the other names, which may
    be of passes: only models show.

    Raises: ConfigError for a name that is nearly an operator's, or no operator's while no compiler
    names its passes.
    """
    known = operator_registry(plugins)
    operators = list(known)
    asked = [registry.get(spec.name).fired_passes for spec in specs]
    any_passes = any(method is not Backend.fired_passes for method in asked)
    for name in names:
        if name in operators:
            continue
        if (hint := meant(name, operators, NEARLY)) or not any_passes:
            passes = "" if any_passes else ", and no compiler here names its passes"
            raise ConfigError(f"--focus {name!r} is no operator{passes}; {hint}see nnfuzz ops")
    modes = {spec.name: spec.plain.name for spec in known.specs() if spec.plain}
    aimed = tuple(name for name in operators if name in names or modes.get(name) in names)
    return aimed, tuple(dict.fromkeys(name for name in names if name not in operators))


def _changed(
    passes: Sequence[str],
    producers: Producers,
    runners: Sequence[BackendRunner],
    operators: Iterable[str],
) -> list[list[TestCase]]:
    """Of each pass, models that it changes. Raises: ConfigError if there is none."""
    changed: dict[str, list[TestCase]] = {name: [] for name in passes}
    fired_names: set[str] = set()
    for made in producers.entries(Numbered(0, index) for index in range(TRIED)):
        if not isinstance(made, Entry):
            continue
        for runner in runners:
            level = runner.backend.default_levels()[-1]
            fired = runner.fired_passes(made.case.source(runner.reads), level) or ()
            fired_names |= {*fired}
            for name in changed.keys() & fired:
                changed[name].append(made.case)
        if all(len(cases) >= PER_PASS for cases in changed.values()):
            break
    for name, cases in changed.items():
        if not cases:
            raise ConfigError(
                f"--focus {name!r} is neither an operator (nnfuzz ops) nor a pass that changes one "
                f"of {TRIED} models; {suggest(name, [*operators, *fired_names])[:400]}"
            )
    return [cases[:PER_PASS] for cases in changed.values()]
