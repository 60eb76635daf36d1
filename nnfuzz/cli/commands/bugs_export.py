"""`nnfuzz bugs export`: bugs as tests for a compiler's own suite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.commands.bugs import LEDGER, LedgerFolder
from nnfuzz.cli.commands.bugs_check import bugs
from nnfuzz.cli.declared import OTHERS
from nnfuzz.cli.errors import FINDINGS, OK, UsageError, tell, writing
from nnfuzz.cli.shell import Grouped

__all__ = ["bugs", "export"]
PYTEST, NODE_TEST = "pytest", "onnx-node-test"


@bugs.command(cls=Grouped)
def export(
    chosen: Annotated[
        list[str],
        typer.Argument(
            metavar="[SYSTEM|BUG]...", help="Bugs, or all of a system.", show_default=False
        ),
    ],
    out: Annotated[Path, OTHERS.option("Folder for the tests.", "DIR", show_default=False)],
    style: Annotated[
        str,
        OTHERS.option(
            "pytest, or onnx-node-test for folders with a model and its data.",
            "STYLE",
            "--as",
        ),
    ] = PYTEST,
    xfail: Annotated[
        bool,
        OTHERS.flag("Mark the tests as expected to fail, for a suite that is green.", "--xfail"),
    ] = False,
    ledger: LedgerFolder = LEDGER,
) -> None:
    """Write bugs as tests that fail with the bug, and pass without it.

    \b
    nnfuzz bugs export onnxruntime/mismatch-reducesum-2f0367 --out tests
    nnfuzz bugs export tvm --xfail --out tests/python/relax

    A test runs the bug's script, which is put into a folder beside it. A bug without a script, or
    for node tests without a model, is skipped with a message; exit code 1 if nothing was written.
    """
    from nnfuzz.bugs.bug import BugError
    from nnfuzz.bugs.exporting import node_test, pytest_file
    from nnfuzz.bugs.ledger import Ledger

    if style not in (PYTEST, NODE_TEST):
        raise UsageError(f"there is no style {style!r}: {PYTEST}, {NODE_TEST}")
    book, written = Ledger.opened(ledger), 0
    for name in book.chosen(chosen):
        try:
            with writing(out):
                if style == NODE_TEST:
                    place = node_test(book, name, out)
                else:
                    place = pytest_file(book, name, out, xfail)
        except BugError as error:
            tell(f"{name}: no test: {error}")
            continue
        written += 1
        typer.echo(place)
    raise typer.Exit(OK if written else FINDINGS)
