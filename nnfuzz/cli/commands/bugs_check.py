"""`nnfuzz bugs check` and `refresh`: bugs that a release has fixed or brought back."""

from __future__ import annotations

from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.ci import JUnit, SummaryMd, write_reports
from nnfuzz.cli.commands.bugs import LEDGER, Chosen, LedgerFolder, bugs, write_json
from nnfuzz.cli.declared import REPORTED, TESTED
from nnfuzz.cli.errors import FINDINGS, NOT_COMPARED, OK, UsageError, tell, writing
from nnfuzz.cli.options import Plugins
from nnfuzz.cli.shell import Grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nnfuzz.bugs.checking import Checked
    from nnfuzz.bugs.environments import Choose, Interpreters

__all__ = ["bugs", "check", "refresh"]


@bugs.command(cls=Grouped)
def check(
    chosen: Chosen = None,
    ledger: LedgerFolder = LEDGER,
    release: Annotated[
        str, TESTED.option("Check this release, in an environment of its own.", "RELEASE")
    ] = "",
    wheel: Annotated[
        Path | None, TESTED.option("Check the compiler in this wheel.", "FILE.whl")
    ] = None,
    python: Annotated[
        str, TESTED.option("Check the compiler that this interpreter has installed.", "PATH")
    ] = "",
    nightly: Annotated[
        bool, TESTED.flag("Check the newest release, prereleases among them.", "--nightly")
    ] = False,
    bisect: Annotated[
        bool,
        TESTED.flag(
            "Look for the first release that is right, where some lie between.",
            "--bisect/--no-bisect",
        ),
    ] = True,
    dry_run: Annotated[
        bool, REPORTED.flag("Print the changes and leave the ledger as it is.", "--dry-run")
    ] = False,
    results: Annotated[
        Path | None, REPORTED.option("Write the results as JSON.", "FILE.json")
    ] = None,
    junit: JUnit = None,
    summary_md: SummaryMd = None,
    plugin: Plugins = None,
) -> None:
    """Run the scripts of all bugs, and move their states.

    Exit code 1 if one is back, 4 if no script could run.

    \b
    nnfuzz bugs check                            the installed compilers
    nnfuzz bugs check onnxruntime --release 1.32.0
    nnfuzz bugs check tvm --wheel dist/apache_tvm-0.28.0-cp311-cp311-linux_x86_64.whl

    A bug that a release does not show is fixed in it, and one that was fixed and shows again is
    back. A script that fails in another way than its bug is reported, and changes nothing. The
    scripts are programs that run with your rights: check ledgers of people whom you trust.
    """
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.bugs.bisecting import ScriptBisection
    from nnfuzz.bugs.checking import BugChange, Checker
    from nnfuzz.bugs.environments import Interpreters
    from nnfuzz.bugs.ledger import Ledger
    from nnfuzz.bugs.results import counts, results_json, rows

    book, interpreters = (
        Ledger.opened(ledger),
        Interpreters(BackendRegistry.discover(plugin or []), tell),
    )
    if (release or nightly) and not chosen:
        raise UsageError("name the system that the release is of: nnfuzz bugs check SYSTEM ...")
    checker = Checker(
        book,
        _choice(interpreters, release, wheel, python, nightly),
        tell,
        date.today(),
        ScriptBisection(interpreters.releases, interpreters.of_release, tell) if bisect else None,
        not dry_run,
    )
    done: list[Checked] = []
    with writing(ledger):
        for checked in checker.check_all(book.chosen(chosen or [])):
            done.append(checked)
            typer.echo(checked.line[:_SHOWN])
    if results is not None:
        write_json(results, results_json(done))
    write_reports(rows(done), "bugs", f"Bugs of {ledger}", _news(done), junit, summary_md)
    totals = ", ".join(f"{n} {change}" for change, n in counts(done).items())
    typer.echo(totals or "there is no bug to check")
    if any(c.is_regression for c in done):
        raise typer.Exit(FINDINGS)
    ran = any(c.change is not BugChange.CANNOT_RUN for c in done)
    raise typer.Exit(OK if ran or not done else NOT_COMPARED)


_SHOWN = 300  # characters of a line


def _choice(
    there: Interpreters, release: str, wheel: Path | None, python: str, nightly: bool
) -> Choose:
    """Where scripts run. Raises: UsageError for two of them at once, ReleaseError."""
    if sum(map(bool, (release, wheel, python, nightly))) > 1:
        raise UsageError("--release, --wheel, --python and --nightly: give one of them")
    if release:
        return there.of_release(release)
    if wheel is not None:
        return there.of_wheel(wheel)
    if python:
        return there.of_python(python)
    return there.newest if nightly else there.installed


def _news(done: Sequence[Checked]) -> list[str]:
    from nnfuzz.bugs.checking import NEWS

    return [c.line for c in done if c.change in NEWS]


@bugs.command(cls=Grouped)
def refresh(
    chosen: Chosen = None,
    ledger: LedgerFolder = LEDGER,
    run: Annotated[
        bool,
        TESTED.flag(
            "Run the scripts with what is installed, and declare their models for the oldest opset "
            "at which they reproduce, so that more releases read them.",
            "--run/--no-run",
        ),
    ] = True,
    plugin: Plugins = None,
) -> None:
    """Make the scripts of bugs again from their models, by this nnfuzz.

    A bug without the model and data of its finding keeps its script, but for the opset.
    """
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.bugs.declaring import declare_oldest, follow_script
    from nnfuzz.bugs.environments import Interpreters
    from nnfuzz.bugs.ledger import Ledger
    from nnfuzz.bugs.refreshing import refreshed
    from nnfuzz.bugs.scripts import run_script
    from nnfuzz.cli.consent import Consent

    book, registry = Ledger.opened(ledger), BackendRegistry.discover(plugin or [])
    interpreters = Interpreters(registry, tell)
    with writing(ledger), book.locked(tell):
        for name, bug in book.chosen(chosen or []).items():
            place, script = book.place(name), book.script(name)
            done = refreshed(place, registry, Consent(place, plugin or []))
            if run and script.is_file():
                python = interpreters.installed(bug).python
                if declare_oldest(script, partial(run_script, python=python)):
                    done = f"{done}; now at an older opset"
            if follow_script(place):
                done = f"{done}; the report follows"
            typer.echo(f"{name}: {done}")
