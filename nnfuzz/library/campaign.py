"""Campaigns: created from a request, or resumed, and run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from nnfuzz.backend.registry import BackendRegistry, BackendSpec, plugin_name
from nnfuzz.backend.runner import CompilerServers, RunnerError
from nnfuzz.backend.target import DIRECT
from nnfuzz.base.reading import Json, Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import CampaignResult, run_campaign
from nnfuzz.feedback.support_cache import SupportCache
from nnfuzz.library.focus import focused, sorted_out
from nnfuzz.library.folders import cache_folder, default_folder
from nnfuzz.library.known_failures import baseline_failures, known_failures
from nnfuzz.library.settings import case_settings, chosen_backends, make_config
from nnfuzz.parts.sources import SOURCES
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.records.observer import Note, Observer, ignore
from nnfuzz.store.store import Store
from nnfuzz.store.summary import read_summary
from nnfuzz.testcase.client import ProducerSettingsError

Allow = Callable[[Iterable[str]], None]
"""Raises an error if one of the plug-ins of a foreign folder may not run."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The request for a campaign, under the names of options.

    settings: as `case_settings` takes them; those left out have their defaults, or in a campaign
    that goes on its present value. note: shows a line to people.
    """

    backends: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    out: Path | None = None
    known: Path | None = None
    baseline: Path | None = None
    focus: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    note: Note = ignore

    def known_lines(self, registry: BackendRegistry) -> tuple[str, ...]:
        """The lines of all known failures. Raises: ConfigError."""
        named = known_failures(self.known, registry) if self.known else ()
        earlier = baseline_failures(self.baseline, registry) if self.baseline else ()
        return tuple(dict.fromkeys((*named, *earlier)))


def new_config(
    request: Request, servers: CompilerServers | None = None
) -> tuple[CampaignConfig, BackendRegistry]:
    """The settings of a new campaign. servers: import the compilers that have to be asked.

    Raises: ConfigError, RegistryError, OptionError, RunnerError.
    """
    registry = BackendRegistry.discover(request.plugins)
    specs = chosen_backends(registry, request.backends, request.note)
    usual = {"exporter": DIRECT} if request.focus else {}
    given = case_settings({**usual, **request.settings})
    if request.focus:
        given |= _focus(request, registry, specs, given)
    known = request.known_lines(registry)
    config = make_config(registry, specs, request.plugins, known, given, request.note, servers)
    return config, registry


def _focus(
    request: Request,
    registry: BackendRegistry,
    specs: tuple[BackendSpec, ...],
    given: Mapping[str, Json],
) -> dict[str, object]:
    """The settings by which every model touches what is asked for. Raises: ConfigError."""
    plugins = [plugin_name(path) for path in request.plugins]
    operators, passes = sorted_out(request.focus, registry, specs, plugins)
    aimed: dict[str, object] = {"focus": operators} if operators else {}
    if not passes:
        return aimed
    settings = {**given, "exporters": given["exporters"][:1]}
    case = make_config(registry, specs, request.plugins, (), settings).case
    case = replace(case, dynamic=0.0, opsets={})  # models that others start from have one opset
    folder = cache_folder() / "focus"
    try:
        models = focused(passes, registry, specs, case, folder, request.note)
    except ProducerSettingsError as error:
        raise ConfigError(str(error)) from error
    return {**aimed, **case_settings({"seed_models": models})}


def config_to_go_on(
    stored: CampaignConfig, request: Request, allow: Allow
) -> tuple[CampaignConfig, BackendRegistry]:
    """The settings of a campaign with the limits that are given anew. Raises: ConfigError."""
    given = case_settings(request.settings)
    allow(stored.plugins)
    registry = BackendRegistry.discover(stored.plugins)
    if request.backends:
        given["backends"] = tuple(registry.parse(text) for text in request.backends)
    if request.known or request.baseline:
        given["known"] = request.known_lines(registry)
    return stored.resumed_with(given), registry


@dataclass(frozen=True)
class Campaign:
    """A campaign's folder with its settings and backends. A context manager.

    servers: of compilers that were imported for the settings.
    """

    store: Store
    config: CampaignConfig
    registry: BackendRegistry
    resumes: bool
    servers: CompilerServers = field(default_factory=CompilerServers)

    @classmethod
    def create(cls, request: Request) -> Self:
        """Raises: ConfigError, StoreError if the folder holds something; see `new_config`."""
        servers = CompilerServers()
        try:
            config, registry = new_config(request, servers)
            folder = request.out or default_folder(config.backends)
            store = Store.create(folder, as_json(config))
        except BaseException:
            servers.close()
            raise
        return cls(store, config, registry, False, servers)

    @classmethod
    def resume(cls, request: Request, allow: Allow) -> Self:
        """Raises: ConfigError, StoreError, and what `allow` raises."""
        if request.out is None:
            raise ConfigError("--resume needs --out DIR: which campaign shall go on?")
        store = Store.open(request.out)
        try:
            if store.meta(SOURCES) is not None:
                raise ConfigError(f"{request.out} was merged by nnfuzz merge: go on with its parts")
            stored = CampaignConfig.from_json(store.config())
            config, registry = config_to_go_on(stored, request, allow)
            refuse_finished(store, config)
            store.set_meta("config", as_json(config))
        except BaseException:
            store.close()
            raise
        return cls(store, config, registry, True)

    @property
    def folder(self) -> Path:
        return self.store.folder

    def run(
        self, observer: Observer, interrupted: Callable[[], bool], fresh: bool = False
    ) -> CampaignResult:
        """Runs a session: until the limits are reached, or until interrupted.

        fresh: whether probes run although earlier campaigns have left their answers behind.
        Raises: ConfigError, RunnerError; a new campaign then leaves no folder behind.
        """
        cache = SupportCache(cache_folder(), ignored=fresh)
        try:
            given = self.store, self.config, self.registry, observer, cache, interrupted
            return run_campaign(*given, servers=self.servers)
        except (ConfigError, RunnerError):
            if not self.resumes:
                self.store.discard()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: object, trace: TracebackType | None) -> None:
        self.servers.close()
        self.store.close()


def refuse_finished(store: Store, config: CampaignConfig) -> None:
    """Raises: ConfigError if there is nothing left to do within the limits."""
    limit = config.tests_limit
    tests = limit is not None and store.tests.count(0, limit) >= config.part.of(limit)
    seconds = store.sessions.seconds_before()
    if store.hangs.unconfirmed() or not _is_summarised(store):
        return  # hangs are decided, and a campaign that was killed is ended, whatever limits say
    if tests or (config.time_limit is not None and seconds >= config.time_limit):
        raise ConfigError(
            f"the campaign in {store.folder} has reached its limit ({store.tests.count()} tests, "
            f"{seconds:.0f} s): give it a higher --tests or --time (both count from its beginning)"
        )


def _is_summarised(store: Store) -> bool:
    """Whether the campaign has come to its end after its last test."""
    try:
        summary = read_summary(store.folder)
        return summary.tests + sum(summary.not_run.values()) >= store.tests.count()
    except Unreadable:
        return False
