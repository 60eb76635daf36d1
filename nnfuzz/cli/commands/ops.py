"""`nnfuzz ops`: the operators, checks of their specs, and the signatures that a backend refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.declared import OTHERS, TESTED
from nnfuzz.cli.errors import tell
from nnfuzz.cli.operators import load_operators, terminal
from nnfuzz.cli.options import Plugins
from nnfuzz.cli.shell import GroupedGroup

if TYPE_CHECKING:
    from nnfuzz.feedback.support import Support

ops = typer.Typer(
    help="List the operators that models are made of; check their specs.",
    cls=GroupedGroup,
    invoke_without_command=True,
    no_args_is_help=False,
    rich_markup_mode=None,
)


@ops.callback()
def table(
    context: typer.Context,
    backend: Annotated[
        list[str] | None,
        TESTED.option(
            "Show what is known not to be supported by this backend, and why.",
            "NAME[@RELEASE]",
            "--backend",
            "-b",
        ),
    ] = None,
    whole: Annotated[
        bool,
        OTHERS.option(
            "Show every column: families, inputs, what exporters write, all backends.", "", "--all"
        ),
    ] = False,
    plugin: Plugins = None,
) -> None:
    """List the operators that models are made of; check their specs.

    \b
    nnfuzz ops                       all operators, and their support by installed compilers
    nnfuzz ops --all                 the same with exporters and model optimisers
    nnfuzz ops --backend tvm         signatures that TVM does not support, by exporter
    nnfuzz ops check Conv MatMul     compare specs with PyTorch and ONNX
    """
    if context.invoked_subcommand:
        return
    if backend:
        for name in backend:
            _show_support(name, plugin or [])
    else:
        _show_operators(plugin or [], whole)


def _show_operators(plugins: list[Path], whole: bool) -> None:
    """Prints the table. Raises: UsageError."""
    from nnfuzz.base.files import cache_folder
    from nnfuzz.cli.operator_facts import cached_facts, operator_facts
    from nnfuzz.cli.vocabulary import UNKNOWN, rich_table, with_support

    find = lambda: operator_facts(load_operators(plugins).specs())  # noqa: E731
    operators = find() if plugins else cached_facts(cache_folder() / "operators.json", find)
    known = _known_support(cache_folder(), whole)
    supports = {name: support for name, (_, support) in known.items()}
    rows = with_support(operators, supports)
    headings = [f"{name} {version}".strip() for name, (version, _) in known.items()]
    console = terminal()
    console.print(rich_table(rows, headings, console.width, whole))
    print(f"{len(rows)} operators, {sum(o.signatures for o in operators)} signatures")
    if supports:
        print(f"support as far as campaigns and probes have tried it; {UNKNOWN}: not tried yet")
    else:
        print("to learn what a compiler supports, fuzz it, or run nnfuzz backends --probe NAME")


def _known_support(folder: Path, all_: bool) -> dict[str, tuple[str, Support]]:
    """(version, support table) of installed backends, of the installed release if that ran here.

    all_: of exporters, model optimisers and backends of which nothing is known as well.
    """
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.backend.releases import known_release
    from nnfuzz.feedback.support_cache import SupportCache, is_of

    registry, cache = BackendRegistry.discover(), SupportCache(folder)
    known = {}
    for name in registry.usable(tell):
        backend = registry.get(name)
        release = known_release(backend)
        version, support = cache.known(name, release)
        if all_ or (support.entries and not backend.baseline):
            known[name] = release if is_of({name: version}, release) else version, support
    return known


def _show_support(name: str, plugins: list[Path]) -> None:
    """Prints a backend's support table for each exporter: of the release that is named or
    installed, or else the newest there is. name: NAME or NAME@RELEASE.
    """
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.backend.releases import known_release
    from nnfuzz.base.files import cache_folder
    from nnfuzz.feedback.support_cache import SupportCache, claims_of

    registry = BackendRegistry.discover(plugins)
    spec = registry.parse(name)
    release = spec.release or known_release(registry.get(spec.name))
    files = SupportCache(cache_folder()).newest_by_exporter(spec.name, release)
    claims = claims_of(registry.get(spec.name), {spec.name: release}).reasons
    if claims:
        print(f"{name}: {len(claims)} operators and signatures that campaigns begin without")
    for key, why in claims.items():
        print(f"  {key}: {why}")
    if not files and not claims:
        print(
            f"nothing is known about {name} yet: fuzz it, or run nnfuzz backends --probe {name}",
            file=sys.stderr,
        )
    for file in files:
        refused = file.support.refused()
        print(
            f"{name} ({', '.join(f'{k} {v}' for k, v in file.versions.items())}), exporter "
            f"{file.exporter}, opset {file.opset}: {len(file.entries)} of "
            f"{file.signatures} signatures known, {len(refused)} refused"
        )
        for key, why in sorted(refused.items()):
            print(f"  {key}: {why}")
