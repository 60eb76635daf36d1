"""Turns the options of a campaign or a corpus into its settings: backends, exporters, opsets."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from packaging.version import Version

from nnfuzz.backend.contract import meant, suggest
from nnfuzz.backend.registry import BackendRegistry, BackendSpec, plugin_name
from nnfuzz.backend.runner import BackendRunner, CompilerServers, RunnerError, usable
from nnfuzz.backend.target import DIRECT, ONNX
from nnfuzz.base.setting import settings_of
from nnfuzz.generate.config import DTYPE_WEIGHTS, ENGINES, dtype_weights
from nnfuzz.generate.interface import RANK_0
from nnfuzz.generate.large import large_share
from nnfuzz.ir.opset_imports import OWN_DOMAINS
from nnfuzz.materialize.opsets import (
    MIXED,
    OPSETS,
    READ_FROM,
    default_opset,
    opset_range,
    opsets_up_to,
)
from nnfuzz.operators.draw import Sizes
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.records.observer import Note, ignore
from nnfuzz.records.settings import SETTINGS
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.settings import AIMED_FORMS, CaseSettings, digest, seed_files
from nnfuzz.triage.survey import first_taken, not_taken, refused_interface
from nnfuzz.vary.faults.fault import NODES, SIZES

Specs = Sequence[BackendSpec]

OLDEST_ONNX = "0"
"""The release of onnx of a compiler that names none: older than whatever came late to an opset."""
QUANTISERS = frozenset({"QuantizeLinear", "DynamicQuantizeLinear"})
"""Operators one of which every quantised model has."""


def chosen_backends(
    registry: BackendRegistry, texts: Sequence[str], note: Note = ignore
) -> tuple[BackendSpec, ...]:
    """Parsed, installed backends. Raises: ConfigError, RegistryError, OptionError."""
    if not texts:
        here = registry.usable(note)
        raise ConfigError(
            f"which compiler? Add --backend NAME; installed: {', '.join(here) or 'none'} "
            "(nnfuzz backends tells more)"
        )
    specs = tuple(registry.parse(text) for text in texts)
    for spec in specs:
        try:
            usable(registry.get(spec.name), spec)
        except RunnerError as error:
            raise ConfigError(str(error)) from error
    return specs


def case_settings(asked: Mapping[str, Any], opset: int | None = None) -> dict[str, Any]:
    """Fields of CaseConfig and CampaignConfig for the settings that people choose.

    asked: by the names of their fields. exporter: a name, several with commas between, or "mixed";
    becomes `exporters`, a tuple of names. dtypes, exclude_dtypes: names; become weights.
    seed_models: a folder; becomes files and their digest, and makes "direct" the usual exporter.
    large: a word or a share. All else is kept.
    Raises: ConfigError for an unknown name.
    """
    settings = dict(asked)
    if settings.get("seed_models"):
        settings.setdefault("exporter", DIRECT)
    if exporter := settings.pop("exporter", None):
        settings["exporters"] = exporter_names(exporter, opset or settings.get("opset"))
    if (engine := settings.get("engine")) is not None and engine not in ENGINES:
        raise ConfigError(f"there is no engine {engine!r}; {suggest(engine, ENGINES)}")
    try:
        only, without = settings.pop("dtypes", ()), settings.pop("exclude_dtypes", ())
        if weights := dtype_weights(only, without):
            settings["dtypes"] = weights
        if isinstance(word := settings.get("large"), str):
            settings["large"] = large_share(word)
        if folder := settings.get("seed_models"):
            files = seed_files(folder)
            settings |= {"seed_models": tuple(map(str, files)), "seed_digest": digest(files)}
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return settings


def exporter_names(text: str | None = None, opset: int | None = None) -> tuple[str, ...]:
    """The exporters of a text: "mixed", which None means as well, or names with commas between.

    Of several, those that do not reach the opset are left out. Raises: ConfigError.
    """
    parts = (part.strip() for part in (text or "mixed").split(","))
    names = tuple(dict.fromkeys(filter(None, parts)))
    names = MIXED if names == ("mixed",) else names
    known = [*OPSETS, "mixed"]
    for unknown in (name for name in names if name not in OPSETS):
        hint = meant(unknown, known)
        raise ConfigError(f"unknown exporter {unknown!r}; {hint}known: {', '.join(known)}")
    ranges = {name: opset_range(name) for name in names}
    reach = [name for name, (lo, hi) in ranges.items() if opset is None or lo <= opset <= hi]
    return tuple(reach) or names[:1]


def make_config(
    registry: BackendRegistry,
    specs: Specs,
    plugins: Iterable[str | Path],
    known: tuple[str, ...],
    given: Mapping[str, Any],
    note: Note = ignore,
    servers: CompilerServers | None = None,
) -> CampaignConfig:
    """The configuration of a new campaign.

    given: fields of CampaignConfig and CaseConfig, as `case_settings` returns them; "exporters"
    among them has names, "opset" is for all of them. known: lines of known failures. servers:
    import the compilers that have to be asked.
    Raises: ConfigError, OptionError, RunnerError.
    """
    rest = _for_invalid(registry, specs, given) if given.get("invalid") else dict(given)
    opset = rest.pop("opset", None)
    # Where nobody reads ONNX, no model has to keep away from what an exporter cannot write.
    usual = "mixed" if any(_form(registry, spec) == ONNX for spec in specs) else DIRECT
    names = rest.pop("exporters", None) or exporter_names(usual, opset)
    case = {f.name: rest.pop(f.name) for f in fields(CaseConfig) if f.name in rest}
    check_quantised(case)
    case["plugins"] = tuple(plugin_name(path) for path in plugins)
    opsets = {name: choose_opset(registry, specs, opset, name) for name in names}
    case["onnx_release"] = onnx_release(registry, specs)
    taken = {spec.label: registry.get(spec.name).domains for spec in specs}
    case["domains"] = chosen_domains(taken, case)
    draws = not opset and "opsets" not in case and _draws_opsets(registry, specs, case)
    case = {**_usual_shares(case), **case}
    with _readers_of_onnx(registry, specs, servers) as runners:
        if draws:
            oldest, newest = _taken(runners, max(opsets.values()), note)
            opsets = {name: min(opset, newest) for name, opset in opsets.items()}
            case["opsets"] = opsets_up_to(opsets, oldest)
        if any(case.get(name) for name in ("rewrites", "edges", "forms")) and DIRECT in opsets:
            loads_files = any(registry.get(spec.name).loads_files for spec in specs)
            case["unrewritten"] = _unrewritten(runners, loads_files, opsets[DIRECT], note)
        if not case.get("invalid"):
            case |= _kept_away(runners, max(opsets.values()), case, note)
    for spec in specs:
        for level in rest.get("levels", ()):
            registry.get(spec.name).check_level(level)
    if "time_limit" not in rest and "tests_limit" not in rest:
        rest["time_limit"] = SETTINGS["time"].usual
    for name in ("pipelines", "defaults"):
        rest.setdefault(name, 0.0 if rest.get("levels") else SETTINGS[name].usual)
    return CampaignConfig(
        backends=tuple(specs),
        case=CaseConfig(**case).written_by(opsets),
        known=known,
        **{"seed": secrets.randbelow(1 << 32), "workers": default_workers(), **rest},
    )


def corpus_config(
    settings: Mapping[str, Any], registry: BackendRegistry | None = None, specs: Specs = ()
) -> CaseConfig:
    """The configuration of test cases that are made without a campaign, for some compilers.

    settings: as `case_settings` takes them; "opset" is for all exporters.
    Raises: ConfigError, OptionError, RunnerError.
    """
    registry = BackendRegistry() if registry is None else registry
    opset = settings.get("opset")
    given = case_settings({k: v for k, v in settings.items() if k != "opset"}, opset)
    exporters = given.pop("exporters", None) or exporter_names(None, opset)
    check_quantised(given)
    opsets = {name: choose_opset(registry, specs, opset, name) for name in exporters}
    if not opset and not given.get("seed_models"):
        given["opsets"] = opsets_up_to(opsets)
    taken = {spec.label: registry.get(spec.name).domains for spec in specs}
    given["domains"] = chosen_domains(taken, given, usual=False)
    given |= {"onnx_release": onnx_release(registry, specs)} if specs else {}
    return CaseConfig(**given).written_by(opsets)


def _usual_shares(case: Mapping[str, Any]) -> dict[str, float]:
    """The shares of campaigns. case: fields of CaseConfig as given."""
    usual = {each.field: each.usual for each in settings_of(CaseSettings) if each.usual is not None}
    plain = not (case.get("edges") or case.get("invalid"))
    if case.get("focus"):
        usual["forms"] = AIMED_FORMS
    if case.get("invalid"):
        del usual["spelled"], usual["calls"]
    return {name: share for name, share in usual.items() if plain or name not in _OF_PLAIN}


_OF_PLAIN = ("quantize", "edge_share", "forms")
"""Shares that are 0 where all models have values at edges or are invalid."""


def check_quantised(case: Mapping[str, Any]) -> None:
    """Raises: ConfigError if models are to be quantised but cannot be. case: as given."""
    if not case.get("quantize"):
        return
    if case.get("edges"):
        raise ConfigError("models at edges are not quantised: leave out quantize")
    named = set(case.get("operators", ()))
    if (named and not named & QUANTISERS) or set(case.get("exclude", ())) >= QUANTISERS:
        raise ConfigError(
            "no model can be quantised: operators need QuantizeLinear with DequantizeLinear, or "
            "DynamicQuantizeLinear with MatMulInteger, Cast and Mul; or leave out quantize"
        )


_OF_VALID = (
    *("exporters dynamic calls quantize rewrites seed_models motifs".split()),
    *("skeletons", "large", "spelled", "forms", "pipelines", "regressions", "edges", "edge_share"),
)
"""Settings of how valid models are made and how their results are treated."""


def _for_invalid(
    registry: BackendRegistry, specs: Specs, given: Mapping[str, object]
) -> dict[str, Any]:
    """The settings of a campaign with models that must be refused. Raises: ConfigError."""
    if other := [name for name in _OF_VALID if given.get(name)]:
        named = {"exporters": "exporter", "large": "sizes"}
        name = named.get(other[0], other[0]).replace("_", "-")
        raise ConfigError(f"the setting invalid makes its models itself: leave out {name}")
    if strange := [spec.label for spec in specs if _form(registry, spec) != ONNX]:
        raise ConfigError(f"invalid models need backends that read ONNX, {strange[0]} does not")
    settled: dict[str, object] = {
        "probe": False,
        "reduce": False,
        "throttle": 0,
    }
    settled |= {"full_check": 0.0, "pipelines": 0.0, "defaults": 0.0, "exporters": (DIRECT,)}
    usual = {"nodes": NODES, "sizes": SIZES, "motifs": 0.0, "skeletons": 0.0}
    usual |= dict.fromkeys(("dynamic", "quantize", "large", "forms"), 0.0)
    return {**usual, **given, **settled}


def chosen_domains(
    taken: Mapping[str, Collection[str]], case: Mapping[str, Any], usual: bool = True
) -> tuple[str, ...]:
    """The domains beside ONNX's own whose operators models may have, sorted.

    They are those that are asked for, and those of operators that are asked for by name; where
    nothing is asked for, they are all domains that every backend takes, or none unless `usual`.
    taken: by the label of each backend, what it takes. case: fields of CaseConfig as given.
    Raises: ConfigError if a backend does not take one that is asked for.
    """
    named = {name.rpartition(".")[0] for name in case.get("operators", ())}
    asked = {*case.get("domains", ()), *named}.difference(OWN_DOMAINS)
    for label, own in taken.items():
        for lacking in sorted(asked.difference(own)):
            raise ConfigError(
                f"{label} takes no operators of the domain {lacking}, but of "
                f"{', '.join(['ai.onnx', *own])}: ask for those (domains, --operators), or leave "
                "this backend out"
            )
    decided = "domains" in case or case.get("operators") or case.get("invalid")
    if decided or not usual or not taken:
        return tuple(sorted(asked))
    return tuple(sorted(set.intersection(*map(set, taken.values()))))


def onnx_release(registry: BackendRegistry, specs: Specs) -> str:
    """The oldest release of onnx that a backend has; OLDEST_ONNX if one does not name its own."""
    named = [registry.get(spec.name).onnx_release or OLDEST_ONNX for spec in specs]
    return min(named, key=Version)


def _form(registry: BackendRegistry, spec: BackendSpec) -> str:
    """The form that a backend reads. Raises: RegistryError, OptionError."""
    return registry.get(spec.name)(**spec.options).form


@contextmanager
def _readers_of_onnx(
    registry: BackendRegistry, specs: Specs, servers: CompilerServers | None
) -> Iterator[Sequence[BackendRunner]]:
    """A runner for each backend that reads ONNX; its process starts when it is first asked."""
    new = servers.runner if servers else BackendRunner
    readers = [spec for spec in specs if _form(registry, spec) == ONNX]
    with ExitStack() as stack:
        yield [stack.enter_context(new(spec, registry)) for spec in readers]


def _unrewritten(
    runners: Sequence[BackendRunner], loads_files: bool, opset: int, note: Note
) -> tuple[str, ...]:
    """Operators that a backend does not take, so that no rewrite adds them, and external data if
    no backend loads files. Raises: RunnerError.
    """
    from nnfuzz.vary.rewrite.data import EXTERNAL_FAMILY

    refused: dict[str, None] = {} if loads_files else {EXTERNAL_FAMILY: None}
    for runner in runners:
        lacking = not_taken(runner, opset)
        if lacking:
            *first, last = lacking
            names = f"{', '.join(first)} or {last}" if first else last
            note(f"{runner.spec.label} takes no {names}: rewrites leave that out")
        refused |= dict.fromkeys(lacking)
    return tuple(refused)


def _kept_away(
    runners: Sequence[BackendRunner], opset: int, case: Mapping[str, Any], note: Note
) -> dict[str, Any]:
    """The settings by which models have no inputs, outputs, dtypes and ranks that a backend refuses
    as such. Raises: RunnerError.
    """
    sizes, refused = case.get("sizes", Sizes()), dict[str, None]()
    ranks = set(range(len(sizes.max_dim)))
    for runner in runners:
        if own := refused_interface(runner, opset):
            note(f"{runner.spec.label} refuses {', '.join(own)}: models are made without")
        refused |= dict.fromkeys(own)
        ranks &= set(runner.backend.ranks or ranks)
    named = ranks - {0} if RANK_0 in refused else ranks
    if len(named) < len(sizes.max_dim):
        sizes = replace(sizes, ranks=tuple(sorted(named)))
    inner = {kind: 0.0 for kind in refused if kind in DTYPE_WEIGHTS}
    ends = tuple(kind for kind in refused if kind not in (*inner, RANK_0))
    return {"interface": ends, "dtypes": {**inner, **case.get("dtypes", {})}, "sizes": sizes}


def choose_opset(registry: BackendRegistry, specs: Specs, given: int | None, exporter: str) -> int:
    """The opset asked for, or the newest that suits the exporter and all backends.

    Raises: ConfigError, RunnerError.
    """
    newest = default_opset(exporter)
    suitable = [newest]
    for spec in specs:
        backend = registry.get(spec.name)
        option = backend.parse_options(spec.options).opset
        preferred = given or option or backend.preferred_opset or newest
        most = _newest_taken(registry, spec, min(preferred, backend.max_opset or preferred))
        if preferred > most and (given or option):
            raise ConfigError(f"{spec.label} takes opsets up to {most}, not {preferred}")
        suitable.append(min(preferred, most))
    return given or min(suitable)


def _draws_opsets(registry: BackendRegistry, specs: Specs, case: Mapping[str, Any]) -> bool:
    """Whether each model gets an opset of its own: not where nobody reads it, where backends are
    asked for one by their options, or where models are made of given ones or must be refused.
    """
    options = [registry.get(spec.name).parse_options(spec.options) for spec in specs]
    given = any(own.opset for own in options) or case.get("seed_models") or case.get("invalid")
    return not given and any(_form(registry, spec) == ONNX for spec in specs)


def _newest_taken(registry: BackendRegistry, spec: BackendSpec, newest: int) -> int:
    """The newest opset up to one that a backend takes; that of an older release is found by running
    it.

    Raises: ConfigError, RunnerError.
    """
    if not spec.release:
        return newest
    oldest = min(lowest for lowest, _ in OPSETS.values())
    with BackendRunner(spec, registry) as runner:
        taken = first_taken(runner, range(newest, oldest - 1, -1))
    if taken is None:
        raise ConfigError(f"{spec} takes no model of the opsets {oldest} to {newest}")
    return taken


def _taken(runners: Sequence[BackendRunner], newest: int, note: Note) -> tuple[int, int]:
    """The oldest and the newest opset that all of the backends take, found by running models.

    newest: that is in question. Raises: RunnerError.
    """
    oldest, _ = opset_range(DIRECT)
    for runner in runners:
        first = first_taken(runner, range(oldest, READ_FROM)) or READ_FROM
        last = first_taken(runner, range(newest, READ_FROM - 1, -1)) or newest
        if first > oldest or last < newest:
            note(f"{runner.spec.label} takes models from opset {first} to {last}")
        oldest, newest = max(oldest, first), min(newest, last)
    return oldest, newest


MOST_LANES = 16
"""The number of workers unless a setting asks for more."""


def default_workers() -> int:
    """The number of processes that work side by side, unless a setting says otherwise: one for each
    core that this process may use.
    """
    return max(1, min(MOST_LANES, len(os.sched_getaffinity(0))))


_LIBRARIES = ("nnfuzz", "torch", "onnx", "numpy", "z3-solver")


def library_versions() -> dict[str, str]:
    """Versions of Python and of the libraries that make test cases, by name."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _LIBRARIES}}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
