"""`nnfuzz backends`: the compilers that are installed, their versions, and missing packages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from nnfuzz.backend.contract import Backend, BackendOptions
from nnfuzz.backend.registry import BackendRegistry, BackendSpec, RegistryError
from nnfuzz.backend.releases import environments, known_release
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.base.files import cache_folder
from nnfuzz.campaign.asking import support_of
from nnfuzz.campaign.configuration import chosen_backends, exporter_names, make_config
from nnfuzz.cli.errors import plain_message, tell, writing
from nnfuzz.cli.options import SUPPORT, TESTED, Plugins
from nnfuzz.cli.progress import Interrupt, subject
from nnfuzz.feedback.support import FAILING, UNSUPPORTED, generalised
from nnfuzz.feedback.support import OK as RUNS
from nnfuzz.feedback.tables import TABLES, RefusalTable


def backends(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME[,KEY=VALUE]]...",
            help="Show these with what their options mean [default: list all].",
            show_default=False,
        ),
    ] = None,
    probe: Annotated[
        list[str] | None,
        SUPPORT.option(
            "Run single-operator models of every signature at every level, and remember "
            "what is not supported.",
            "NAME[,KEY=VALUE]",
        ),
    ] = None,
    table: Annotated[
        Path | None,
        SUPPORT.option(
            "Write what is not supported to DIR/NAME-RELEASE.json as well: campaigns begin with "
            "such a table if it lies in the folder 'support' beside the adapter.",
            "DIR",
        ),
    ] = None,
    check: Annotated[
        bool,
        TESTED.option(
            "Start the backends that are named, and show the versions that they report.",
            "",
            "--check",
        ),
    ] = False,
    plugin: Plugins = None,
) -> None:
    """List backends with releases, levels and options, and say how to get those that are missing;
    then the environments that hold other releases (NAME@RELEASE).

    \b
    nnfuzz backends
    nnfuzz backends tvm              the meaning of its options
    nnfuzz backends --check tvm      whether it starts
    nnfuzz backends --probe tvm      which operators and dtypes it supports (takes minutes)
    """
    registry = BackendRegistry.discover(plugin or [])
    if probe:
        _probe(registry, probe, plugin or [], table)
        return
    if check and not names:
        raise typer.BadParameter("name the backends to start: nnfuzz backends --check tvm")
    if names:
        for spec in map(registry.parse, names):
            print("\n".join(backend_lines(registry, spec, check)))
        return
    print("\n".join(overview(registry)))
    _print_environments()


def _print_environments() -> None:
    if places := environments():
        print("environments of other releases; one that is removed is made again when needed:")
    for place in places:
        print(f"    {place.distribution} {place.release}: {place.folder}")


def _probe(
    registry: BackendRegistry,
    texts: list[str],
    plugins: list[Path],
    table: Path | None,
) -> None:
    specs = chosen_backends(registry, texts, tell)
    given = {"exporters": exporter_names()}
    config = make_config(registry, specs, plugins, (), given, tell)
    cache = cache_folder()
    with Interrupt() as interrupt:
        print(f"asking {subject(config)}", flush=True)
        for runner, found in support_of(config, registry, cache, interrupt.asked, tell):
            kinds = Counter(answer.kind for answer in found.values())
            own = RefusalTable(runner.spec.name, runner.versions(), generalised(found))
            print(
                f"{runner.name}: {kinds[RUNS]} signatures work, {kinds[UNSUPPORTED]} are not "
                f"supported, {kinds[FAILING]} fail"
            )
            for key, why in own.refused.items():
                print(f"  {key}: {why}")
            if not interrupt.asked():
                own.write(cache / TABLES)
                if table:
                    with writing(table):
                        print(f"wrote {own.write(table)}")


def overview(registry: BackendRegistry) -> Iterator[str]:
    """Lines on all backends, the installed ones first, without starting or importing a compiler."""
    compilers: list[tuple[str, ...]] = []
    helpers: list[tuple[str, ...]] = []
    missing: list[str] = []
    for name in registry.names():
        try:
            backend = registry.get(name)
            reason = backend.missing()
        except RegistryError as error:
            reason = str(error)
        if reason:
            missing.append(f"    {name}: {reason}")
        else:
            (helpers if backend.baseline else compilers).append(_cells(backend, name))
    for title, rows in (
        ("installed (* levels that are compared by default)", compilers),
        ("installed exporters and model optimisers", helpers),
    ):
        widths = [max(map(len, column)) for column in zip(*rows)]
        yield from [f"{title}:"] if rows else []
        for row in rows:
            yield "    " + "  ".join(cell.ljust(n) for cell, n in zip(row, widths)).rstrip()
    yield from ("not here:", *missing) if missing else ()
    yield "options of every backend:"
    yield from _options(fields(BackendOptions))
    yield "the meaning of other options: nnfuzz backends NAME"
    yield "whether a backend starts: nnfuzz backends --check NAME"


def _cells(backend: type[Backend], name: str) -> tuple[str, ...]:
    """Name, release, levels, and the options that not every backend has with this default."""
    common = {option.name: option.default for option in fields(BackendOptions)}
    own = [o for o in fields(backend.Options) if common.get(o.name, o) != o.default]
    options = " ".join(f"{option.name}={option.default}" for option in own)
    return name, known_release(backend), _levels(backend), options


def backend_lines(registry: BackendRegistry, spec: BackendSpec, check: bool) -> Iterator[str]:
    """Lines on one backend. check: whether it is started for them. Raises: RegistryError."""
    backend = registry.get(spec.name)
    yield f"{spec}: {_state(registry, spec, check)}"
    yield f"    {registry.source(spec.name)}"
    yield f"    levels: {_levels(backend)} (* compared by default)"
    if backend.steps:
        yield f"    {len(backend.steps)} passes and options that pipelines are drawn from"
    for dtype, to in backend.narrows.items():
        yield f"    computes {dtype} in {to}"
    for own in backend.overrides:
        yield f"    sets {own.step}{'' if own.exact else ', at default too'}: {own.why}"
    yield from _options(fields(backend.Options))


def _state(registry: BackendRegistry, spec: BackendSpec, check: bool) -> str:
    """The installed release by its metadata, or why there is none; for a check the versions that
    the compiler reports in a worker, or why it does not start.
    """
    backend = registry.get(spec.name)
    if not spec.release and (reason := backend.missing()):
        return f"missing: {reason}"
    if not check:
        return f"{spec.name} {spec.release or known_release(backend)}".rstrip()
    try:
        with BackendRunner(spec, registry) as runner:
            return ", ".join(f"{k} {v}" for k, v in runner.versions().items())
    except RunnerError as error:
        return f"does not start: {plain_message(error).splitlines()[0]}"


def _levels(backend: type[Backend]) -> str:
    default = backend.default_levels()
    return " ".join(f"{level}*" if level in default else level for level in backend.with_default())


def _options(options: tuple[Field[Any], ...]) -> Iterator[str]:
    for option in options:
        yield f"    {option.name}={option.default}: {option.metadata.get('help', '')}"
