"""`nnfuzz ops`: the operators, checks of their specs, and the signatures that a backend refuses."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from nnfuzz.backend.registry import BackendRegistry, import_plugin
from nnfuzz.backend.releases import known_release
from nnfuzz.base.files import cache_folder
from nnfuzz.check.instances import SignatureTypes
from nnfuzz.check.versions import NOTHING_KEPT, Judgements, legal_signatures
from nnfuzz.cli.errors import FINDINGS, OK, UsageError, tell
from nnfuzz.cli.options import AMOUNT, MODELS, TESTED, Plugins
from nnfuzz.cli.progress import steps
from nnfuzz.cli.shell import Grouped, GroupedGroup
from nnfuzz.feedback.tables import claims_of, refused_here
from nnfuzz.generate.catalog import signature_key
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import OpRegistry

ops = typer.Typer(
    help="List the operators that models are made of; check their specs.",
    cls=GroupedGroup,
    invoke_without_command=True,
    add_completion=False,
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
    nnfuzz ops                       all operators
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
    specs = load_operators(plugins).specs()
    operators = operator_facts(specs, Judgements.kept_in(cache_folder()))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, no_wrap=heading in HEADINGS[:2])
    for facts in operators:
        table.add_row(*facts.cells)
    terminal().print(table)
    print(f"{len(operators)} operators, {sum(len(o.keys) for o in operators)} signatures")


def _show_support(name: str, plugins: list[Path]) -> None:
    """Prints what a backend refuses, of the release that is named or installed. name: NAME or
    NAME@RELEASE.
    """
    registry = BackendRegistry.discover(plugins)
    spec = registry.parse(name)
    release = spec.release or known_release(registry.get(spec.name))
    here = refused_here(cache_folder(), spec.name, release)
    claims = claims_of(registry.get(spec.name), {spec.name: release})
    if claims:
        print(f"{name}: {len(claims)} operators and signatures that campaigns begin without")
    for key, why in claims.items():
        print(f"  {key}: {why}")
    if not here and not claims:
        print(
            f"nothing is known about {name} yet: fuzz it, or run nnfuzz backends --probe {name}",
            file=sys.stderr,
        )
    if here:
        print(f"{name} {release}: {len(here)} were refused when it was asked on this machine")
    for key, why in here.items():
        print(f"  {key}: {why}")


LOG_WIDTH = 180


def load_operators(plugins: Iterable[Path]) -> OpRegistry:
    """All operators, with those of plug-in files. Raises: UsageError."""
    try:
        registry = OpRegistry.load(import_plugin(path) for path in plugins)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for note in registry.notes:
        tell(note)
    return registry


def terminal() -> Console:
    """A rich console of the terminal's width; LOG_WIDTH columns where stdout is no terminal."""
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

    from nnfuzz.check.operators import check_operators  # loads PyTorch
    from nnfuzz.check.questions import listing, report_table
    from nnfuzz.check.runtimes import BUNDLED

    registry = _selected(load_operators(plugin or []), operators or [])
    specs = registry.specs()
    reports = []
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


# -- tables --------------------------------------------------------------------------------

HEADINGS = ("operator", "opset", "ranks", "dtypes")


@dataclass(frozen=True)
class OperatorFacts:
    """One operator. cells: in the order of HEADINGS. keys: signatures that some opset admits."""

    cells: tuple[str, ...]
    keys: tuple[str, ...]


def operator_facts(
    specs: Iterable[type[OpSpec]], judgements: Judgements = NOTHING_KEPT
) -> list[OperatorFacts]:
    """The facts on each operator, sorted by name. judgements: of earlier processes; new ones are
    added.
    """
    facts = []
    for spec in sorted(specs, key=lambda s: s.name.lower()):
        legal = legal_signatures(spec, judgements)
        keys = {signature_key(spec, *signature) for signature in legal}
        cells = (spec.name, f"{spec.since}+", _ranks(spec), _dtypes(spec, legal))
        facts.append(OperatorFacts(cells, tuple(sorted(keys))))
    judgements.save()
    return facts


def _ranks(spec: type[OpSpec]) -> str:
    """The ranks that each input admits, such as "1-5, 0"; written once where all are the same."""
    texts = [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in (p.ranks for p in spec.inputs)]
    return texts[0] if len(set(texts)) == 1 else ", ".join(texts)


def _dtypes(spec: type[OpSpec], signatures: Sequence[SignatureTypes]) -> str:
    """The dtypes of each type variable in some signatures; then those of a distinct output."""
    variables = dict.fromkeys(pattern.var for pattern in spec.inputs)
    parts = [_names(binding[var] for binding, _ in signatures) for var in variables]
    if spec.output not in variables:
        parts.append("-> " + _names(output for _, output in signatures))
    return "; ".join(parts)


def _names(dtypes: Iterable[DType]) -> str:
    named = set(dtypes)
    return " ".join(dtype.value for dtype in DType if dtype in named)
