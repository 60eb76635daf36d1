"""Folders of regression models: planned from a request, and filled."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry, BackendSpec, plugin_name
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.writing import as_json
from nnfuzz.corpus.generate import CorpusPlan, check_unused, fill, supported_only
from nnfuzz.corpus.layout import LICENSE, CorpusError, Entry
from nnfuzz.corpus.producers import Producers
from nnfuzz.corpus.pytest_file import PYTEST_FILE, pytest_file
from nnfuzz.library.domains import chosen_domains
from nnfuzz.library.folders import cache_folder
from nnfuzz.library.settings import (
    Specs,
    case_settings,
    check_quantised,
    choose_opset,
    chosen_backends,
    default_workers,
    exporter_names,
    onnx_release,
)
from nnfuzz.library.steps import Note, Steps, ignore, no_steps
from nnfuzz.library.support import Watcher, unsupported
from nnfuzz.materialize.opsets import opsets_up_to
from nnfuzz.records.versions import library_versions
from nnfuzz.testcase.case import CaseConfig, NotProduced
from nnfuzz.testcase.client import ProducerSettingsError
from nnfuzz.testcase.identity import TestId

DEFAULT_COUNT = 100
USUAL = "onnxruntime"
"""What test_models.py runs in a corpus for no compiler, or for one that needs nnfuzz to run."""


@dataclass(frozen=True, kw_only=True)
class CorpusRequest:
    """The request for a corpus.

    count: models in the folder in the end; None for the default, or with `singles` for as many as
    there are. singles: whether models have one operator, and show every dtype and attribute.
    max_bytes: of a model with its data; 0 for any. settings: see `case_settings`; opset for all
    exporters. watcher: shows probing. note, steps: show what is done.
    """

    out: Path
    watcher: Watcher
    count: int | None = None
    singles: bool = False
    max_bytes: int = 0
    processes: int | None = None
    seed: int = 0
    opset: int | None = None
    backends: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    note: Note = ignore
    steps: Steps = no_steps


@dataclass(frozen=True)
class Filled:
    """The result of a corpus. models: in the folder."""

    models: int
    skipped: tuple[NotProduced, ...]


def generate(request: CorpusRequest) -> Filled:
    """Writes a corpus.

    Raises: ConfigError, CorpusError, RegistryError, OptionError, RunnerError, OSError.
    """
    check_unused(request.out)
    registry = BackendRegistry.discover(request.plugins)
    texts = request.backends
    specs = chosen_backends(registry, texts, request.note) if texts else ()
    plan = _plan(request, registry, specs)
    processes = request.processes or default_workers()
    try:
        with ExitStack() as stack:
            runners = [stack.enter_context(BackendRunner(spec, registry)) for spec in specs]
            pool = Producers(plan.seed, plan.config, processes, cache_folder())
            producers = stack.enter_context(pool)
            if request.singles:
                plan = _of_singles(plan, producers, request.steps)
            return _filled(request, plan, producers, runners)
    except ProducerSettingsError as error:
        raise CorpusError(str(error)) from error


def _plan(request: CorpusRequest, registry: BackendRegistry, specs: Specs) -> CorpusPlan:
    """Raises: ConfigError, RunnerError."""
    given = case_settings({"exporter": "direct" if request.singles else None, **request.settings})
    exporters = given.pop("exporters", None) or exporter_names(None, request.opset)
    given["plugins"] = tuple(map(plugin_name, request.plugins))
    check_quantised(given)
    opsets = {n: choose_opset(registry, specs, request.opset, n) for n in exporters}
    if not request.opset and not given.get("seed_models"):
        given["opsets"] = opsets_up_to(opsets)
    taken = {spec.label: registry.get(spec.name).domains for spec in specs}
    given["domains"] = chosen_domains(taken, given, usual=False)
    config = CaseConfig(**given).written_by(opsets)
    versions: dict[str, str] = {}
    if specs:
        config = replace(config, onnx_release=onnx_release(registry, specs))
        refused, versions = unsupported(registry, specs, config, request.watcher)
        config = replace(config, refused=refused)
    every = sys.maxsize if request.singles else DEFAULT_COUNT
    foreign = " AND LicenseRef-seed-models" if config.seed_models else ""
    return CorpusPlan(
        request.count or every,
        request.seed,
        as_json(config),
        {**library_versions(), **versions},
        request.max_bytes,
        extra={"singles": True} if request.singles else {},
        license=f"{LICENSE}{foreign}",
        script=models_under_pytest(registry, specs, request.note),
    )


def models_under_pytest(
    registry: BackendRegistry, specs: Sequence[BackendSpec], note: Note = ignore
) -> str:
    """The text of test_models.py: for the first of the compilers, else for the usual one."""
    if own := pytest_file(specs[:1], registry):
        return own
    if specs:
        note(f"{PYTEST_FILE} runs {USUAL}: {specs[0]} offers no program that does without nnfuzz")
    return pytest_file([registry.parse(USUAL)] if USUAL in registry.names() else [], registry)


def _of_singles(plan: CorpusPlan, producers: Producers, steps: Steps) -> CorpusPlan:
    """The plan with the models of one operator that show everything."""
    tests: list[TestId] = []
    keys = producers.signatures()
    with steps("signatures", len(keys)) as advance:
        for instances in producers.instances(keys):
            tests += instances
            advance(f"{len(tests)} models")
    return replace(plan, tests=tuple(tests))


def _filled(
    request: CorpusRequest, plan: CorpusPlan, producers: Producers, runners: Sequence[BackendRunner]
) -> Filled:
    def produce(tests: Iterable[TestId]) -> Iterator[Entry | NotProduced]:
        return supported_only(producers.entries(tests), runners)

    models, skipped = 0, list[NotProduced]()
    most = min(plan.count, len(plan.tests) or plan.count)
    with request.steps("models", most) as advance:
        for made in fill(request.out, plan, produce):
            if isinstance(made, NotProduced):
                skipped.append(made)
            else:
                models += 1
                advance(f"{len(skipped)} passed over" if skipped else "")
    return Filled(models, tuple(skipped))
