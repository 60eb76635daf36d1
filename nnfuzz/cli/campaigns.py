"""Campaigns: created from a request, or resumed, and run; failures that they hold back as known."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from nnfuzz.backend.contract import Backend, meant, suggest
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry, BackendSpec, plugin_name
from nnfuzz.backend.runner import BackendRunner, CompilerServers, RunnerError
from nnfuzz.backend.target import DIRECT
from nnfuzz.base.files import cache_folder
from nnfuzz.base.reading import Json, JsonObject, Unreadable, read
from nnfuzz.base.untrusted import making_sense, read_json
from nnfuzz.base.writing import as_json
from nnfuzz.bugs.bug import Bug
from nnfuzz.bugs.ledger import Ledger, bugs_of, is_ledger, known_bugs
from nnfuzz.campaign.configuration import case_settings, chosen_backends, make_config
from nnfuzz.campaign.merging import MERGED
from nnfuzz.campaign.session import CampaignResult, run_campaign
from nnfuzz.cli.consent import Consent
from nnfuzz.cli.errors import tell
from nnfuzz.corpus.layout import Entry
from nnfuzz.corpus.producers import Producers
from nnfuzz.findings.reduced import known_by
from nnfuzz.library.plugins import operator_registry
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.records.observer import Observer
from nnfuzz.store.store import Store
from nnfuzz.store.summary import read_summary
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.keys import Key, KnownError, KnownFailures

NEARLY = 0.85
"""Likeness (difflib's ratio) of a misspelt name to an operator's; no known pass is as close."""
PER_PASS, TRIED = 16, 300
"""Models that a pass changes, and how many are looked through for them: a few seconds with a
compiler of milliseconds per model."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The request for a campaign, under the names of options.

    settings: as `case_settings` takes them; those left out have their defaults, or in a campaign
    that goes on its present value.
    """

    backends: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    out: Path | None = None
    known: Path | None = None
    focus: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)

    def known_lines(self, registry: BackendRegistry) -> tuple[str, ...]:
        """The lines of all known failures. Raises: ConfigError."""
        return tuple(known_failures(self.known, registry) if self.known else ())


def new_config(
    request: Request, servers: CompilerServers | None = None
) -> tuple[CampaignConfig, BackendRegistry]:
    """The settings of a new campaign. servers: import the compilers that have to be asked.

    Raises: ConfigError, RegistryError, OptionError, RunnerError.
    """
    registry = BackendRegistry.discover(request.plugins)
    specs = chosen_backends(registry, request.backends, tell)
    usual = {"exporter": DIRECT} if request.focus else {}
    given = case_settings({**usual, **request.settings})
    if request.focus:
        given |= _focus(request, registry, specs, given)
    known = request.known_lines(registry)
    config = make_config(registry, specs, request.plugins, known, given, tell, servers)
    return config, registry


def _focus(
    request: Request,
    registry: BackendRegistry,
    specs: tuple[BackendSpec, ...],
    given: Mapping[str, Json],
) -> dict[str, object]:
    """The settings by which every model touches what is asked for: operators are a setting of
    generation, and for passes there are seed models that they change. Raises: ConfigError.
    """
    operators, passes = _sorted_out(request, registry, specs)
    aimed: dict[str, object] = {"focus": operators} if operators else {}
    if not passes:
        return aimed
    settings = {**given, "exporters": given["exporters"][:1]}
    case = make_config(registry, specs, request.plugins, (), settings).case
    case = replace(case, dynamic=0.0, opsets={})  # models that others start from have one opset
    changed = _changed(passes, registry, specs, case)
    models = list(dict.fromkeys(made.model for cases in changed for made in cases))
    digest = hashlib.sha256(b"".join(hashlib.sha256(m).digest() for m in models)).hexdigest()[:16]
    place = cache_folder() / "focus" / digest
    place.mkdir(parents=True, exist_ok=True)
    for number, model in enumerate(models):
        (place / f"{number:03}.onnx").write_bytes(model)
    names = ",".join(passes)
    tell(f"--focus {names}: every model starts from one of the {len(models)} in {place}")
    return {**aimed, **case_settings({"seed_models": place})}


def _sorted_out(
    request: Request, registry: BackendRegistry, specs: Sequence[BackendSpec]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The operators of `focus` with their modes (OpSpec.plain), and the other names, which may be
    of passes: only models show.

    Raises: ConfigError for a name that is nearly an operator's, or no operator's while no compiler
    names its passes.
    """
    known = operator_registry(map(plugin_name, request.plugins))
    names = [own for name in request.focus for own in known.meant(name)]
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
    registry: BackendRegistry,
    specs: Sequence[BackendSpec],
    config: CaseConfig,
) -> list[list[TestCase]]:
    """Of each pass, models that it changes and that the compiler does not refuse.

    Raises: ConfigError if there is none; RunnerError, ProducerSettingsError.
    """
    changed: dict[str, list[TestCase]] = {name: [] for name in passes}
    fired_names: set[str] = set()
    with ExitStack() as stack:
        producers = stack.enter_context(Producers(0, as_json(config), 1, cache=cache_folder()))
        runners = [stack.enter_context(BackendRunner(s, registry)) for s in specs]
        for made in producers.entries(Numbered(0, index) for index in range(TRIED)):
            if not isinstance(made, Entry):
                continue
            for runner in runners:
                level = runner.backend.default_levels()[-1]
                source = made.case.source(runner.reads)
                fired = runner.fired_passes(source, level) or ()
                fired_names |= {*fired}
                hit = changed.keys() & fired
                ran = runner.run(source, made.case.inputs, [level]) if hit else []
                if not any(outcome.kind is OutcomeKind.UNSUPPORTED for outcome in ran):
                    for name in hit:
                        changed[name].append(made.case)
            if all(len(cases) >= PER_PASS for cases in changed.values()):
                break
    operators = operator_registry(config.plugins)
    for name, cases in changed.items():
        if not cases:
            raise ConfigError(
                f"--focus {name!r} is neither an operator (nnfuzz ops) nor a pass that changes one "
                f"of {TRIED} models; {suggest(name, [*operators, *fired_names])[:400]}"
            )
    return [cases[:PER_PASS] for cases in changed.values()]


Session = Callable[[Observer, Callable[[], bool]], CampaignResult]
"""Runs a session of a campaign: until its limits are reached, or until interrupted."""


@contextmanager
def opened_campaign(
    request: Request, resume: bool = False
) -> Iterator[tuple[Path, CampaignConfig, Session]]:
    """The folder of a new campaign, or of one that goes on with the limits that are given anew.

    A new campaign leaves no folder behind if its session raises ConfigError or RunnerError.
    Raises: ConfigError, StoreError if the folder holds something, UsageError for plug-ins that may
    not run; see `new_config`.
    """
    with ExitStack() as stack:
        servers = CompilerServers()
        stack.callback(servers.close)
        if resume:
            if request.out is None:
                raise ConfigError("--resume needs --out DIR: which campaign shall go on?")
            store = stack.enter_context(Store.open(request.out))
            config, registry = _config_to_go_on(store, request)
            refuse_finished(store, config)
            store.set_meta("config", as_json(config))
        else:
            config, registry = new_config(request, servers)
            folder = request.out or default_folder(config.backends)
            store = stack.enter_context(Store.create(folder, as_json(config)))

        def run(observer: Observer, interrupted: Callable[[], bool]) -> CampaignResult:
            given = store, config, registry, observer, cache_folder(), interrupted
            return run_campaign(*given, servers=servers)

        try:
            yield store.folder, config, run
        except (ConfigError, RunnerError):
            if not resume:
                store.discard()
            raise


def _config_to_go_on(store: Store, request: Request) -> tuple[CampaignConfig, BackendRegistry]:
    """The settings of a campaign with the limits that are given anew."""
    if store.meta(MERGED):
        raise ConfigError(f"{store.folder} was merged by nnfuzz merge: go on with its parts")
    stored, given = CampaignConfig.from_json(store.config()), case_settings(request.settings)
    Consent(store.folder, request.plugins).require(stored.plugins)
    registry = BackendRegistry.discover(stored.plugins)
    if request.backends:
        given["backends"] = tuple(registry.parse(text) for text in request.backends)
    if request.known:
        given["known"] = request.known_lines(registry)
    return stored.resumed_with(given), registry


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


def default_folder(specs: Sequence[BackendSpec], prefix: str = "") -> Path:
    """A folder that does not exist yet, named after the backends and the time."""
    names = "+".join(spec.name for spec in specs)
    stem = Path("nnfuzz-out") / f"{prefix}{names}-{datetime.now():%Y%m%d-%H%M%S}"
    folder, number = stem, 1
    while folder.exists():
        number += 1
        folder = stem.with_name(f"{stem.name}-{number}")
    return folder


def known_failures(path: Path, registry: BackendRegistry) -> list[str]:
    """The lines of known failures: of a file with one in each; of a folder, lines for the findings
    in it by today's rules; of a campaign's summary.json, which holds less, signatures; of a ledger,
    lines for its bugs but the fixed ones.

    registry: with the backends of the findings; of others, hashes alone are known.
    Raises: ConfigError, Unreadable.
    """
    try:
        if path.is_dir() and is_ledger(path):
            return list(known_bugs(Ledger(path), registry).lines())
        if path.is_dir():
            files = sorted(path.rglob("finding.json"))
            if not files and not (path / "summary.json").exists():
                raise ConfigError(f"--known {path} holds neither a finding nor a summary.json")
            return list(KnownFailures.merged(known_by(f.parent, registry) for f in files).lines())
        if path.suffix == ".json":
            with making_sense(path):
                rows = read(JsonObject, read_json(path))["signatures"]
                hashes = [{row["signature"], row["cause"], *row["duplicates"]} for row in rows]
            named = sorted(set().union(*hashes) - {""})
            return list(KnownFailures.parse(named, str(path)).lines())
        return list(KnownFailures.load(path).lines())
    except KnownError as error:
        raise ConfigError(f"--known {path}: {error}") from error
    except Unreadable as error:
        raise ConfigError(
            f"--known {error}: name a finding's or campaign's folder, its summary.json, a "
            "ledger, or a text file with a signature in each line"
        ) from error


def known_occurrences(campaign: Path, bugs: Mapping[str, Bug]) -> dict[str, int]:
    """How often each bug of a ledger occurred in a campaign that holds it back (--known), by name;
    a duplicate counts for its leader, and "" for failures that are none of these bugs.

    Raises: StoreError.
    """
    with Store.open(campaign, write=False) as store:
        counts, reductions = store.occurrences.counts_in("known"), store.reductions.rows()
    by_bug: Counter[str] = Counter()
    for signature, count in counts.items():
        row = reductions.get(signature)
        signatures = (signature, row.cause) if row else (signature,)
        keys = row.all_keys if row and row.cause else frozenset[Key]()
        by_bug[next(iter(bugs_of(bugs, signatures, keys)), "")] += count
    return dict(by_bug)
