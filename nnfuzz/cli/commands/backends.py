"""`nnfuzz backends`: the compilers that are installed, their versions, and missing packages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.base.writing import as_json
from nnfuzz.cli.errors import FINDINGS, OK, tell, writing
from nnfuzz.cli.options import OTHERS, SUPPORT, TESTED, Plugins

if TYPE_CHECKING:
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.feedback.support import Support


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
    prune: Annotated[
        bool,
        OTHERS.option("Remove the environments of other releases from the disk.", "", "--prune"),
    ] = False,
    plugin: Plugins = None,
) -> None:
    """List backends with releases, levels and options, and say how to get those that are missing;
    then the environments that hold other releases (NAME@RELEASE), with their sizes.

    \b
    nnfuzz backends
    nnfuzz backends tvm              the meaning of its options
    nnfuzz backends --check tvm      whether it starts
    nnfuzz backends --probe tvm      which operators and dtypes it supports (takes minutes)
    nnfuzz backends --prune          remove the environments; they are made again when needed
    """
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.cli.backend_list import backend_lines, overview

    if prune:
        _prune()
        return
    registry = BackendRegistry.discover(plugin or [])
    if probe:
        raise typer.Exit(_probe(registry, probe, plugin or [], table))
    if check and not names:
        raise typer.BadParameter("name the backends to start: nnfuzz backends --check tvm")
    if names:
        for spec in map(registry.parse, names):
            print("\n".join(backend_lines(registry, spec, check)))
        return
    print("\n".join(overview(registry)))
    _print_environments()


def _print_environments() -> None:
    from nnfuzz.backend.releases import environments

    if places := environments():
        print("environments of other releases (--prune removes them all):")
    for place in places:
        size = place.bytes() / 1e6
        print(f"    {place.distribution} {place.release}: {size:.0f} MB in {place.folder}")


def _prune() -> None:
    from nnfuzz.backend.releases import environments

    for place in environments():
        with writing(place.folder):
            place.remove()
        print(f"removed {place.distribution} {place.release}: {place.folder}")


def _probe(
    registry: BackendRegistry,
    texts: list[str],
    plugins: list[Path],
    table: Path | None,
) -> int:
    from nnfuzz.base.files import cache_folder
    from nnfuzz.campaign.configuration import chosen_backends, exporter_names, make_config
    from nnfuzz.campaign.session import run_probes
    from nnfuzz.cli.campaigns import default_folder
    from nnfuzz.cli.progress import Interrupt, watcher
    from nnfuzz.feedback.support_cache import SupportCache, write_table
    from nnfuzz.store.store import Store

    specs = chosen_backends(registry, texts, tell)
    given: dict[str, object] = {"exporters": exporter_names()}
    if table is None:
        given["opsets"] = {}  # the newest one says enough of what works
    config = make_config(registry, specs, plugins, (), given, tell)
    folder = default_folder(specs, "probe-")
    cache = SupportCache(cache_folder())
    with (
        Store.create(folder, as_json(config)) as store,
        Interrupt() as interrupt,
        watcher(False, config, folder, "probing") as observer,
    ):
        result, tables = run_probes(store, config, registry, observer, cache, interrupt.asked)
    for name, support in tables.items():
        _print_support(name, support)
        newest = cache.newest(name)
        if table and newest and not interrupt.asked():
            with writing(table):
                print(f"wrote {write_table(table, support, newest.versions)}")
    for row in result.findings:
        print(f"FOUND {row.title}: {result.folder / row.folder}")
    return FINDINGS if result.findings else OK


def _print_support(name: str, support: Support) -> None:
    refused, failing = support.refused(), support.failing()
    works = len(support.entries) - len(refused) - len(failing)
    print(
        f"{name}: {works} signatures work, {len(refused)} are not supported, "
        f"{len(failing)} always fail"
    )
    for key, why in sorted(refused.items()):
        print(f"  {key}: {why}")
