"""Corpora, folders of regression models: written by `nnfuzz generate`, run by `nnfuzz verify`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nnfuzz.backend.registry import BackendRegistry, plugin_name
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.base.files import cache_folder
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.configuration import (
    Specs,
    case_settings,
    check_quantised,
    choose_opset,
    chosen_backends,
    chosen_domains,
    default_workers,
    exporter_names,
    onnx_release,
)
from nnfuzz.campaign.session import run_probes
from nnfuzz.cli.errors import tell
from nnfuzz.cli.progress import steps, watcher
from nnfuzz.corpus.generate import CorpusPlan, check_unused, fill, supported_only
from nnfuzz.corpus.layout import LICENSE, CorpusError, Entry, TestFolder
from nnfuzz.corpus.producers import Producers
from nnfuzz.corpus.pytest_file import models_under_pytest
from nnfuzz.feedback.support_cache import SupportCache
from nnfuzz.library.case import case_from_onnx
from nnfuzz.library.experiment import Experiment, save_finding
from nnfuzz.materialize.opsets import opsets_up_to
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import Observer
from nnfuzz.records.settings import FIRST_SECONDS
from nnfuzz.records.versions import library_versions
from nnfuzz.store.store import Store
from nnfuzz.testcase.case import CaseConfig, ModelError, NotProduced, TestCase
from nnfuzz.testcase.client import ProducerError, ProducerSettingsError
from nnfuzz.testcase.identity import TestId

DEFAULT_COUNT = 100
FLAKY = "it does not fail in the same way every time"
NOT_AGAIN = "nnfuzz's own reference, or a second run, finds nothing wrong with the outputs"
Watcher = Callable[[CampaignConfig, Path, str], AbstractContextManager[Observer]]
"""Opens a display of a campaign in a folder; the text says what it does."""


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
    usual = {"exporter": "direct" if singles else None, "plugins": map(plugin_name, plugins)}
    config, versions = _config(registry, specs, {**usual, **settings})
    every = sys.maxsize if singles else DEFAULT_COUNT
    foreign = " AND LicenseRef-seed-models" if config.seed_models else ""
    plan = CorpusPlan(
        count or every,
        settings.get("seed", 0),
        as_json(config),
        {**library_versions(), **versions},
        most_bytes,
        extra={"singles": True} if singles else {},
        license=f"{LICENSE}{foreign}",
        script=models_under_pytest(registry, specs, tell),
    )
    try:
        with ExitStack() as stack:
            runners = [stack.enter_context(BackendRunner(spec, registry)) for spec in specs]
            pool = Producers(plan.seed, plan.config, default_workers(), cache_folder())
            producers = stack.enter_context(pool)
            if singles:
                plan = replace(plan, tests=_singles(producers))
            return _filled(out, plan, producers, runners)
    except ProducerSettingsError as error:
        raise CorpusError(str(error)) from error


def _config(
    registry: BackendRegistry, specs: Specs, settings: Mapping[str, Any]
) -> tuple[CaseConfig, dict[str, str]]:
    """The configuration of a corpus, and the versions of its compilers.

    Raises: ConfigError, RunnerError.
    """
    opset = settings.get("opset")
    given = case_settings({k: v for k, v in settings.items() if k not in ("seed", "opset")}, opset)
    exporters = given.pop("exporters", None) or exporter_names(None, opset)
    given["plugins"] = tuple(given["plugins"])
    check_quantised(given)
    opsets = {n: choose_opset(registry, specs, opset, n) for n in exporters}
    if not opset and not given.get("seed_models"):
        given["opsets"] = opsets_up_to(opsets)
    taken = {spec.label: registry.get(spec.name).domains for spec in specs}
    given["domains"] = chosen_domains(taken, given, usual=False)
    config = CaseConfig(**given).written_by(opsets)
    if not specs:
        return config, {}
    config = replace(config, onnx_release=onnx_release(registry, specs))
    refused, versions = unsupported(registry, specs, config, partial(watcher, False))
    return replace(config, refused=refused), versions


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


def unsupported(
    registry: BackendRegistry, specs: Specs, case: CaseConfig, watching: Watcher
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The signatures of a configuration that some backend calls unsupported, and all versions.

    They are probed at every level for FIRST_SECONDS at most; answers are kept between runs, so that
    the next one goes on. Raises: RunnerError, ConfigError, PoolError.
    """
    case = replace(case, seed_models=(), seed_digest="")
    config = CampaignConfig(tuple(specs), case, reduce=False, workers=default_workers())
    what = f"for at most {FIRST_SECONDS:.0f} s probing"
    with tempfile.TemporaryDirectory(prefix="nnfuzz-probes-") as name:
        folder, cache = Path(name) / "campaign", SupportCache(cache_folder())
        with (
            Store.create(folder, as_json(config)) as store,
            watching(config, folder, what) as observer,
        ):
            result, _ = run_probes(store, config, registry, observer, cache, seconds=FIRST_SECONDS)
    return tuple(sorted(result.refused)), dict(result.summary.versions)


def save_failures(
    out: Path,
    tests: Sequence[TestFolder],
    backend: str,
    levels: Sequence[str],
    plugins: Iterable[Path],
) -> Iterator[tuple[TestFolder, list[Path], str]]:
    """Runs the tests once more, and writes a folder into `out` for each way in which one fails.

    Yields each test with its folders, and why there are none. The folders are named by signature,
    so that tests that fail in the same way share one. Raises: RegistryError, OptionError, OSError.
    """
    targets = [f"{backend}/{level}" for level in levels] or [backend]
    with Experiment(targets, plugins) as run, steps("findings", len(tests)) as advance:
        for test in tests:
            try:
                results = [run(case) for case in _cases(test)]
            except (ModelError, ProducerError, RunnerError, Unreadable) as error:
                yield test, [], str(error)
            else:
                found = [finding for result in results for finding in run.findings(result)]
                saved = sorted({save_finding(finding, out) for finding in found})
                flaky = any(result.flaky for result in results)
                yield test, saved, "" if saved else FLAKY if flaky else NOT_AGAIN
            advance("")


def _cases(test: TestFolder) -> Iterator[TestCase]:
    """The test case of each data set. Raises: ModelError, Unreadable."""
    own = list(test.cases())
    yield from own
    for data in () if own else test.data_sets():
        yield case_from_onnx(test.model(), data.inputs)
