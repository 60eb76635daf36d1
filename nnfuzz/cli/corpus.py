"""Corpora, folders of regression models: written by `nnfuzz generate`, run by `nnfuzz verify`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from nnfuzz.backend.registry import BackendRegistry, plugin_name
from nnfuzz.backend.releases import known_release
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.base.files import cache_folder
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.configuration import (
    Specs,
    chosen_backends,
    corpus_config,
    default_workers,
    library_versions,
)
from nnfuzz.cli.errors import tell, writing
from nnfuzz.cli.progress import steps
from nnfuzz.corpus.generate import CorpusPlan, check_unused, fill, supported_only
from nnfuzz.corpus.layout import LICENSE, CorpusError, Entry, TestFolder
from nnfuzz.corpus.producers import Producers
from nnfuzz.corpus.pytest_file import models_under_pytest
from nnfuzz.experiment.compilers import examine
from nnfuzz.experiment.result import Result
from nnfuzz.feedback.support_cache import SupportCache, claims_of
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.library.case import case_from_onnx
from nnfuzz.library.experiment import findings_of, save_finding
from nnfuzz.testcase.case import ModelError, NotProduced
from nnfuzz.testcase.client import ProducerClient, ProducerError, ProducerSettingsError
from nnfuzz.testcase.identity import TestId

DEFAULT_COUNT = 100
FLAKY = "it does not fail in the same way every time"
NOT_WRONG = "nnfuzz's own reference finds nothing wrong with the outputs"


def write_corpus(
    out: Path,
    settings: Mapping[str, Any],
    count: int | None,
    singles: bool,
    most_bytes: int,
    texts: Sequence[str],
    plugins: Sequence[Path],
) -> tuple[int, list[NotProduced]]:
    """Writes a corpus; returns how many models the folder has, and what was passed over.

    settings: see `case_settings`; the seed and the opset for all exporters among them. count: None
    for DEFAULT_COUNT, or with `singles` for every model that there is. singles: whether each model
    has one operator, and all of them together show every dtype and attribute. most_bytes: the
    largest size of a model with its data; 0 for no limit. texts: the compilers that it is for.
    Raises: ConfigError, CorpusError, RegistryError, OptionError, RunnerError, OSError.
    """
    check_unused(out)
    registry = BackendRegistry.discover(plugins)
    specs = chosen_backends(registry, texts, tell) if texts else ()
    seed, settings = settings.get("seed", 0), {k: v for k, v in settings.items() if k != "seed"}
    own = {"plugins": tuple(map(plugin_name, plugins)), "refused": known_refusals(registry, specs)}
    usual = {"exporter": "direct"} if singles else {}
    config = corpus_config({**usual, **own, **settings}, registry, specs)
    every = sys.maxsize if singles else DEFAULT_COUNT
    foreign = " AND LicenseRef-seed-models" if config.seed_models else ""
    plan = CorpusPlan(
        count or every,
        seed,
        as_json(config),
        {},
        most_bytes,
        extra={"singles": True} if singles else {},
        license=f"{LICENSE}{foreign}",
        script=models_under_pytest(registry, specs, tell),
    )
    try:
        with ExitStack() as stack:
            runners = [stack.enter_context(BackendRunner(spec, registry)) for spec in specs]
            versions = {k: v for runner in runners for k, v in runner.versions().items()}
            plan = replace(plan, versions={**library_versions(), **versions})
            pool = Producers(plan.seed, plan.config, default_workers(), cache_folder())
            producers = stack.enter_context(pool)
            if singles:
                plan = replace(plan, tests=_singles(producers))
            return _filled(out, plan, producers, runners)
    except ProducerSettingsError as error:
        raise CorpusError(str(error)) from error


def _singles(producers: Producers) -> tuple[TestId, ...]:
    """The models of one operator that show everything."""
    tests: list[TestId] = []
    keys = producers.signatures()
    with steps("signatures", len(keys)) as advance:
        for instances in producers.instances(keys):
            tests += instances
            advance(f"{len(tests)} models")
    return tuple(tests)


def _filled(
    out: Path, plan: CorpusPlan, producers: Producers, runners: Sequence[BackendRunner]
) -> tuple[int, list[NotProduced]]:
    def produce(tests: Iterable[TestId]) -> Iterator[Entry | NotProduced]:
        return supported_only(producers.entries(tests), runners)

    models, skipped = 0, list[NotProduced]()
    with steps("models", min(plan.count, len(plan.tests) or plan.count)) as advance:
        for made in fill(out, plan, produce):
            if isinstance(made, NotProduced):
                skipped.append(made)
            else:
                models += 1
                advance(f"{len(skipped)} passed over" if skipped else "")
    return models, skipped


def known_refusals(registry: BackendRegistry, specs: Specs) -> tuple[str, ...]:
    """The signatures that some backend does not support, by the table of its adapter and by what
    campaigns and probes have left behind on this machine.
    """
    cache, refused = SupportCache(cache_folder()), set[SupportKey]()
    for spec in specs:
        backend = registry.get(spec.name)
        release = spec.release or known_release(backend)
        refused |= claims_of(backend, {spec.name: release}).keys()
        refused |= cache.known(spec.name, release)[1].refused().keys()
    return tuple(sorted(map(str, refused)))


def save_failures(
    out: Path,
    test: TestFolder,
    results: Sequence[Result],
    runner: BackendRunner,
    bench: ProducerClient,
    levels: Sequence[str],
) -> None:
    """Writes a folder into `out` for each way in which a test fails, and prints its path, or why
    there is none. The folders are named by signature, so that tests that fail in the same way share
    one. results: of its experiments, with failures confirmed; a test of others is run once more.
    Raises: UsageError.
    """
    try:
        if not results:
            cases = [case_from_onnx(test.model(), data.inputs) for data in test.data_sets()]
            results = [
                examine(case, runner, bench, levels, thorough=True, confirms=True) for case in cases
            ]
        found = [finding for result in results for finding in findings_of(result, runner)]
    except (ModelError, ProducerError, RunnerError, Unreadable) as error:
        tell(f"{test.name} gives no finding: {error}")
        return
    with writing(out):
        for folder in sorted({save_finding(finding, out) for finding in found}):
            typer.echo(f"finding of {test.name}: {folder}")
    if not found:
        flaky = any(result.flaky for result in results)
        tell(f"{test.name} gives no finding: {FLAKY if flaky else NOT_WRONG}")
