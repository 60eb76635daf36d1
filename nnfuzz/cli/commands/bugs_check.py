"""`nnfuzz bugs check`: bugs that a release has fixed or brought back."""

from __future__ import annotations

import sys
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.ci import JUnit, SummaryMd, write_reports
from nnfuzz.cli.commands.bugs import LEDGER, Chosen, LedgerFolder, bugs
from nnfuzz.cli.declared import REPORTED, TESTED
from nnfuzz.cli.errors import FINDINGS, NOT_COMPARED, OK, UsageError, tell, writing
from nnfuzz.cli.options import Plugins
from nnfuzz.cli.shell import Grouped

if TYPE_CHECKING:
    from nnfuzz.bugs.checking import Checked

__all__ = ["bugs", "check"]
_SHOWN = 300  # characters of a line


@bugs.command(cls=Grouped)
def check(
    chosen: Chosen = None,
    ledger: LedgerFolder = LEDGER,
    release: Annotated[
        str, TESTED.option("Check this release, in an environment of its own.", "RELEASE")
    ] = "",
    python: Annotated[
        str, TESTED.option("Check the compiler that this interpreter has installed.", "PATH")
    ] = "",
    dry_run: Annotated[
        bool, REPORTED.flag("Print the changes and leave the ledger as it is.", "--dry-run")
    ] = False,
    junit: JUnit = None,
    summary_md: SummaryMd = None,
    plugin: Plugins = None,
) -> None:
    """Run the scripts of all bugs, and move their states.

    Exit code 1 if one is back, 4 if no script could run.

    \b
    nnfuzz bugs check                            the installed compilers
    nnfuzz bugs check onnxruntime --release 1.32.0
    nnfuzz bugs check tvm --python build/venv/bin/python      a build of your own

    A bug that a release does not show is fixed in it, and one that was fixed and shows again is
    back. A script that fails in another way than its bug is reported, and changes nothing. The
    scripts are programs that run with your rights: check ledgers of people whom you trust.
    """
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.bugs.checking import NEWS, BugChange, Checker, counts
    from nnfuzz.bugs.environments import Interpreters
    from nnfuzz.bugs.ledger import Ledger

    if release and python:
        raise UsageError("--release and --python: give one of them")
    if release and not chosen:
        raise UsageError("name the system that the release is of: nnfuzz bugs check SYSTEM ...")
    book, there = Ledger.opened(ledger), Interpreters(BackendRegistry.discover(plugin or []), tell)
    checker = Checker(
        book,
        there.of_release(release) if release else there.of_python(python or sys.executable),
        tell,
        date.today(),
        not dry_run,
    )
    done: list[Checked] = []
    with writing(ledger):
        for checked in checker.check_all(book.chosen(chosen or [])):
            done.append(checked)
            typer.echo(checked.line[:_SHOWN])
    news = [c.line for c in done if c.change in NEWS]
    rows = [c.row for c in done]
    write_reports(rows, "bugs", f"Bugs of {ledger}", news, junit, summary_md)
    totals = ", ".join(f"{n} {change}" for change, n in counts(done).items())
    typer.echo(totals or "there is no bug to check")
    if any(c.is_regression for c in done):
        raise typer.Exit(FINDINGS)
    ran = any(c.change is not BugChange.CANNOT_RUN for c in done)
    raise typer.Exit(OK if ran or not done else NOT_COMPARED)
