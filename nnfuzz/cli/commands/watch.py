"""`nnfuzz watch`: one process for months."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.base.text import one_line
from nnfuzz.cli.declared import AMOUNT, REPORTED
from nnfuzz.cli.defaults import FILE
from nnfuzz.cli.errors import FINDINGS, NOT_COMPARED, OK

if TYPE_CHECKING:
    from nnfuzz.cli.interrupt import Interrupt
    from nnfuzz.watch.rounds import WatchLoop
    from nnfuzz.watch.settings import WatchSettings


def watch(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="[FILE]", help=f"Settings, a table [watch] [default: {FILE}].")
    ] = Path(FILE),
    turns: Annotated[
        int | None,
        AMOUNT.option("End after so many turns [default: never].", "N", min=1, show_default=False),
    ] = None,
    once: Annotated[bool, AMOUNT.flag("End after one turn of each system.", "--once")] = False,
    quiet: Annotated[
        bool, REPORTED.flag("Show events alone, not how far campaigns are.", "--quiet")
    ] = False,
) -> None:
    """Watch compilers for months: new releases, the ledger on them, fuzzing, a dashboard.

    \b
    nnfuzz watch                   as [watch] of nnfuzz.toml says, until Ctrl-C or SIGTERM
    nnfuzz watch --once            one turn of each system, as for a job of every night

    A turn takes one system. It looks for a new release, checks the ledger on it, fuzzes it with the
    ledger as known failures, reduces, adds new bugs, looks up with which release they came, and
    publishes the dashboard. An error costs that turn only; a watch that was killed goes on.

    \b
    [watch]
    ledger = "bugs"
    publish = "site"
    [watch.systems.onnxruntime]
    time = "1h"

    Exit codes with --once and --turns: 0 nothing new, 1 something new, 2 wrong usage, 4 not a
    single turn came to its end. docs/WATCH.md has all settings.
    """
    from nnfuzz.cli.interrupt import Interrupt
    from nnfuzz.cli.watch_settings import read_watch

    group = context.parent.command if context.parent else None
    settings = read_watch(file, group)
    with Interrupt() as interrupt:
        loop = _loop(settings, interrupt, quiet)
        loop.run(len(settings.systems) if once else turns)
    _log(f"ended after {loop.done} turns with {loop.announced} news")
    if not loop.done and not interrupt.asked():
        raise typer.Exit(NOT_COMPARED)
    raise typer.Exit(FINDINGS if loop.announced else OK)


def _loop(settings: WatchSettings, interrupt: Interrupt, quiet: bool) -> WatchLoop:
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.bugs.environments import Interpreters
    from nnfuzz.bugs.ledger import Ledger
    from nnfuzz.cli.consent import remember
    from nnfuzz.cli.progress import watcher
    from nnfuzz.watch.candidates import Candidates
    from nnfuzz.watch.rounds import WatchLoop
    from nnfuzz.watch.turn import Surroundings

    remember(list(settings.plugins))
    registry = BackendRegistry.discover(settings.plugins)
    interpreters = Interpreters(registry, _log)
    around = Surroundings(
        settings,
        Ledger(settings.ledger),
        registry,
        interpreters,
        _log,
        partial(watcher, quiet),
        interrupt.asked,
    )
    candidates = {
        name: Candidates(own, registry.get(own.system), interpreters, _log)
        for name, own in settings.systems.items()
    }
    return WatchLoop(around, candidates)


def _log(line: str) -> None:
    """One line with its time, for a log that is kept."""
    print(f"{datetime.now():%Y-%m-%d %H:%M:%S} {one_line(line)}", flush=True)
