"""`nnfuzz ops`: the operators, checks of their specs, and the signatures that a backend refuses."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.errors import FINDINGS, OK, UsageError, tell
from nnfuzz.cli.options import AMOUNT, MODELS, TESTED, Plugins
from nnfuzz.cli.shell import Grouped, GroupedGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from nnfuzz.feedback.support import Support
    from nnfuzz.operators.registry import OpRegistry

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
    plugin: Plugins = None,
) -> None:
    """List the operators that models are made of; check their specs.

    \b
    nnfuzz ops                       all operators, and their support by installed compilers
    nnfuzz ops --backend tvm         signatures that TVM does not support, by exporter
    nnfuzz ops check Conv MatMul     compare specs with PyTorch and ONNX
    """
    if context.invoked_subcommand:
        return
    if backend:
        for name in backend:
            _show_support(name, plugin or [])
    else:
        _show_operators(plugin or [])


def _show_operators(plugins: list[Path]) -> None:
    """Prints the table. Raises: UsageError."""
    from nnfuzz.base.files import cache_folder
    from nnfuzz.check.legality import Judgements
    from nnfuzz.cli.operator_tables import UNKNOWN, operator_facts, rich_table

    judgements = Judgements.kept_in(cache_folder())
    operators = operator_facts(load_operators(plugins).specs(), judgements)
    supports = _known_support(cache_folder())
    console = terminal()
    console.print(rich_table(operators, supports, console.width))
    print(f"{len(operators)} operators, {sum(o.signatures for o in operators)} signatures")
    if supports:
        print(f"support as far as campaigns and probes have tried it; {UNKNOWN}: not tried yet")
    else:
        print("to learn what a compiler supports, fuzz it, or run nnfuzz backends --probe NAME")


def _known_support(folder: Path) -> dict[str, Support]:
    """The support tables of installed compilers, of the installed release if that ran here, by
    name and version.
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
        if support.entries and not backend.baseline:
            shown = release if is_of({name: version}, release) else version
            known[f"{name} {shown}".strip()] = support
    return known


def _show_support(name: str, plugins: list[Path]) -> None:
    """Prints a backend's support table: of the release that is named or installed, or else the
    newest there is. name: NAME or NAME@RELEASE.
    """
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.backend.releases import known_release
    from nnfuzz.base.files import cache_folder
    from nnfuzz.feedback.support_cache import SupportCache, claims_of

    registry = BackendRegistry.discover(plugins)
    spec = registry.parse(name)
    release = spec.release or known_release(registry.get(spec.name))
    file = SupportCache(cache_folder()).newest(spec.name, release)
    claims = claims_of(registry.get(spec.name), {spec.name: release})
    if claims:
        print(f"{name}: {len(claims)} operators and signatures that campaigns begin without")
    for key, why in claims.items():
        print(f"  {key}: {why}")
    if not file and not claims:
        print(
            f"nothing is known about {name} yet: fuzz it, or run nnfuzz backends --probe {name}",
            file=sys.stderr,
        )
    if file:
        refused = file.support.refused()
        print(
            f"{name} ({', '.join(f'{k} {v}' for k, v in file.versions.items())}): "
            f"{len(file.entries)} signatures known, {len(refused)} refused"
        )
        for key, why in sorted(refused.items()):
            print(f"  {key}: {why}")


LOG_WIDTH = 180


def load_operators(plugins: Iterable[Path]) -> OpRegistry:
    """All operators, with those of plug-in files. Raises: UsageError."""
    from nnfuzz.backend.registry import import_plugin
    from nnfuzz.operators.registry import OpRegistry

    try:
        registry = OpRegistry.load(import_plugin(path) for path in plugins)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for note in registry.notes:
        tell(note)
    return registry


def terminal() -> Console:
    """A rich console of the terminal's width; LOG_WIDTH columns where stdout is no terminal."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False, file=sys.__stdout__)
    return Console(highlight=False, width=LOG_WIDTH)


@ops.command(cls=Grouped)
def check(
    operators: Annotated[
        list[str] | None,
        typer.Argument(help="Names of operators [default: all]."),
    ] = None,
    instances: Annotated[
        int,
        AMOUNT.option(
            "Instances of each kind (forward, backward, broken, blind) per operator.", "N", min=1
        ),
    ] = 20,
    seed: Annotated[
        int,
        MODELS.option("Same seed, same instances.", "S", min=0),
    ] = 0,
    plugin: Plugins = None,
) -> None:
    """Check operator specs against PyTorch and ONNX; exit code 1 if there are problems.

    Solved instances must run and have the inferred type, instances with one broken condition must
    be rejected, and instances that PyTorch accepts should not be refused (the table has the refused
    share). Then PyTorch's results are compared with those of onnx.reference and of the functions
    that define ONNX operators: a difference must be declared as a waiver, and every waiver must
    occur.

    Columns: forward, backward: solved instances that ran; unsolved: drawn, but not solved;
    unconfirmed: ran, but no ONNX runtime can compute them. accepted: random instances that PyTorch
    and ONNX take; refused: those of them that the spec refuses; torch only: refused, and not what
    ONNX means either. broken: instances with one broken condition; torch rejects: those that
    PyTorch rejects; needless: those that both take, so that the condition asks for too much; empty:
    instances without elements that were checked. Then how often each implementation agreed.
    """
    from nnfuzz.check.operators import check_operators
    from nnfuzz.check.report import CheckReport, listing, report_table
    from nnfuzz.check.runtimes import BUNDLED
    from nnfuzz.cli.progress import steps

    registry = _selected(load_operators(plugin or []), operators or [])
    specs = registry.specs()
    reports: list[CheckReport] = []
    with steps("checking operators", len(specs)) as advance:
        for report in check_operators(specs, seed, instances, BUNDLED, registry.waivers):
            reports.append(report)
            advance(report.operator)
    terminal().print(report_table(reports))
    for line in listing(reports):
        terminal().print(line, markup=False, soft_wrap=True)
    raise typer.Exit(OK if all(report.ok for report in reports) else FINDINGS)


def _selected(registry: OpRegistry, names: Sequence[str]) -> OpRegistry:
    try:
        return registry.select(names or list(registry))
    except KeyError as error:
        raise UsageError(str(error.args[0])) from error
