"""`nnfuzz ops check`: compares operator specs with PyTorch and with implementations of ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.commands.ops import ops
from nnfuzz.cli.declared import AMOUNT, MODELS, TESTED
from nnfuzz.cli.errors import FINDINGS, OK, UsageError
from nnfuzz.cli.operators import load_operators, terminal
from nnfuzz.cli.options import Plugins
from nnfuzz.cli.shell import Grouped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nnfuzz.check.runtimes import Runtime
    from nnfuzz.operators.registry import OpRegistry


__all__ = ["check", "ops"]


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
    backend: Annotated[
        list[str] | None,
        TESTED.option(
            "Compiler whose least optimised level arbitrates as well.",
            "NAME[,KEY=VALUE]",
            "--backend",
            "-b",
        ),
    ] = None,
    implementations: Annotated[
        list[Path] | None,
        TESTED.option(
            "Further reference implementation: operators in NumPy (or a folder of such).", "FILE.py"
        ),
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Check operator specs against PyTorch and ONNX; exit code 1 if there are problems.

    Solved instances must run and have the inferred type, instances with one broken condition must
    be rejected, and instances that PyTorch accepts should not be refused (the table has the refused
    share). Then PyTorch's results are compared with those of onnx.reference and of further
    implementations of the ONNX operators: a difference must be declared as a waiver, and every
    waiver must occur. Where all operators are checked, every attribute of the ONNX operators must
    be set to another value than its default now and then.

    Columns: forward, backward: solved instances that ran; unsolved: drawn, but not solved;
    unconfirmed: ran, but no ONNX runtime can compute them. accepted: random instances that PyTorch
    and ONNX take; refused: those of them that the spec refuses; torch only: refused, and not what
    ONNX means either. broken: instances with one broken condition; torch rejects: those that
    PyTorch rejects; needless: those that both take, so that the condition asks for too much; empty:
    instances without elements that were checked. Then how often each implementation agreed.
    """
    from nnfuzz.check.operators import check_operators
    from nnfuzz.check.reach import reach_problems
    from nnfuzz.check.report import CheckReport, listing, report_table
    from nnfuzz.cli.progress import steps

    registry = _selected(load_operators(plugin or []), operators or [])
    specs = registry.specs()
    compilers = _compilers(backend or [], plugin or [])
    runtimes = {**_runtimes(implementations or []), **dict(compilers)}
    reports: list[CheckReport] = []
    with steps("checking operators", len(specs)) as advance:
        for report in check_operators(specs, seed, instances, runtimes, registry.waivers):
            reports.append(report)
            advance(report.operator)
    console = terminal()
    console.print(report_table(reports))
    never = [] if operators else list(reach_problems(specs, seed))
    for line in [*listing(reports), *never]:
        terminal().print(line, markup=False, soft_wrap=True)
    raise typer.Exit(OK if not never and all(report.ok for report in reports) else FINDINGS)


def _selected(registry: OpRegistry, names: Sequence[str]) -> OpRegistry:
    try:
        return registry.select(names or list(registry))
    except KeyError as error:
        raise UsageError(str(error.args[0])) from error


def _compilers(backends: Sequence[str], plugins: Sequence[Path]) -> Iterator[tuple[str, Runtime]]:
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.check.runtimes import runtime_of
    from nnfuzz.library.settings import chosen_backends

    if backends:
        registry = BackendRegistry.discover(plugins)
        for spec in chosen_backends(registry, list(backends)):
            if spec.release:
                raise UsageError(f"{spec}: this command runs what is installed, no other release")
            yield spec.name, runtime_of(spec.load())


def _runtimes(paths: Sequence[Path]) -> dict[str, Runtime]:
    """The reference implementations by name: onnx's, and those in files. Raises: UsageError."""
    from nnfuzz.backend.registry import import_plugin
    from nnfuzz.check.runtimes import (
        BUNDLED,
        STANDARD_IMPLEMENTATION,
        runtime_of_standard_implementations,
    )
    from nnfuzz.check.standard_implementation import standard_implementations_of

    files = [f for path in paths for f in (sorted(path.glob("*.py")) if path.is_dir() else [path])]
    own = [op for file in files for op in standard_implementations_of(import_plugin(file))]
    return (
        {**BUNDLED, STANDARD_IMPLEMENTATION: runtime_of_standard_implementations(own)}
        if own
        else dict(BUNDLED)
    )
