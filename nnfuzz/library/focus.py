"""`nnfuzz fuzz --focus`: seed models with the operators and passes that a change is about."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from nnfuzz.backend.contract import Backend, meant, suggest
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.writing import as_json
from nnfuzz.corpus.entry import Entry
from nnfuzz.corpus.producers import Producers
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.library.case import operator_registry
from nnfuzz.library.steps import Note
from nnfuzz.records.config import ConfigError
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.identity import Numbered, Probe

PER_OPERATOR = 16
"""Models of one operator: dtypes first; a model that is fuzzed starts from one of all."""
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
    """A folder with models that each touch one of the operators or passes by name.

    config: of the campaign, with one exporter. folder: where such folders are kept.
    Raises: ConfigError for a name that is neither; RunnerError, ProducerSettingsError.
    """
    _refuse_misspelt(names, registry, specs, config)
    with ExitStack() as stack:
        producers = stack.enter_context(Producers(0, as_json(config), 1))
        keys = producers.signatures()
        operators = {key.operator for key in keys}
        groups = [list(_singles(n, keys, producers)) for n in names if n in operators]
        passes = [name for name in names if name not in operators]
        if passes:
            runners = [stack.enter_context(BackendRunner(s, registry)) for s in specs]
            groups += _changed(passes, producers, runners, operators)
    models = dict.fromkeys(case.model for cases in groups for case in cases)
    digest = hashlib.sha256(b"".join(hashlib.sha256(m).digest() for m in models)).hexdigest()[:16]
    place = folder / digest
    place.mkdir(parents=True, exist_ok=True)
    for number, model in enumerate(models):
        (place / f"{number:03}.onnx").write_bytes(model)
    note(f"--focus {','.join(names)}: every model starts from one of the {len(models)} in {place}")
    return place


def _refuse_misspelt(
    names: Sequence[str],
    registry: BackendRegistry,
    specs: Sequence[BackendSpec],
    config: CaseConfig,
) -> None:
    """Raises: ConfigError for a name that is nearly an operator's, or no operator's while no
    compiler names its passes; others may be passes, which only models can show.
    """
    operators = list(operator_registry(config.plugins))
    asked = [registry.get(spec.name).fired_passes for spec in specs]
    any_passes = any(method is not Backend.fired_passes for method in asked)
    for name in names:
        if name in operators:
            continue
        if (hint := meant(name, operators, NEARLY)) or not any_passes:
            passes = "" if any_passes else ", and no compiler here names its passes"
            raise ConfigError(f"--focus {name!r} is no operator{passes}; {hint}see nnfuzz ops")


def _singles(name: str, keys: Iterable[SupportKey], producers: Producers) -> Iterator[TestCase]:
    """Models of one operator, of different signatures as far as there are."""
    own = [key for key in keys if key.operator == name]
    tests = (Probe(key, number) for number in range(PER_OPERATOR) for key in own)
    made = (e.case for e in producers.entries(tests) if isinstance(e, Entry))
    yield from itertools.islice(made, PER_OPERATOR)


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
