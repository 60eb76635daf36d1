"""`nnfuzz bugs`: the ledger of bugs, checks of releases, and bugs as tests."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.text import one_line
from nnfuzz.base.writing import fields_as_json
from nnfuzz.bugs.adding import Adder, AdditionKind
from nnfuzz.bugs.bug import NAMES, Bug, BugState, bug_of, bug_text
from nnfuzz.bugs.checking import NEWS, BugChange, Checked, Checker, Interpreters
from nnfuzz.bugs.exporting import node_test, pytest_file
from nnfuzz.bugs.ledger import Ledger, leader
from nnfuzz.cli.campaigns import known_occurrences
from nnfuzz.cli.consent import Consent
from nnfuzz.cli.errors import FINDINGS, NOT_COMPARED, OK, UsageError, tell, writing
from nnfuzz.cli.options import OTHERS, REPORTED, TESTED, JUnit, Plugins, SummaryMd
from nnfuzz.cli.reports import write_reports
from nnfuzz.cli.shell import Grouped, GroupedGroup
from nnfuzz.store.store import FILE

HELP = """Keep bugs in a ledger: a folder for git, with a folder for each bug.

\b
nnfuzz bugs add campaign                      adds the new findings of a campaign
nnfuzz bugs list                              which bugs there are
nnfuzz bugs set tvm/NAME state=filed upstream=https://...
nnfuzz fuzz -b tvm --known bugs               reports bugs that are not in the ledger
nnfuzz bugs check tvm --release 0.27.0        what did a release fix or break?

A bug's folder has bug.toml, which may be written by hand, and the model, script and report of its
finding. States: new, filed, confirmed, fixed, wontfix, duplicate, flaky.
"""
LEDGER = Path("bugs")
WIDTH = 60
"""Characters of a title in a list."""

bugs = typer.Typer(
    help=HELP, no_args_is_help=True, add_completion=False, cls=GroupedGroup, rich_markup_mode=None
)

LedgerFolder = Annotated[
    Path, OTHERS.option("Folder of the ledger.", "FOLDER", "--ledger", "-l", show_default=True)
]
BugName = Annotated[
    str, typer.Argument(help="Name of a bug, such as tvm/mismatch-pow-c29550.", show_default=False)
]
Chosen = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SYSTEM|BUG]...", help="Those of a system, or one [default: all]."),
]


@bugs.command(cls=Grouped)
def add(
    campaign: Annotated[
        Path, typer.Argument(help="Folder of a campaign or of a finding.", show_default=False)
    ],
    ledger: LedgerFolder = LEDGER,
    plugin: Plugins = None,
) -> None:
    """Add the new findings of a campaign; a bug of the ledger gets its new occurrence.

    \b
    nnfuzz bugs add nnfuzz-out/tvm

    A finding belongs to a bug that failed in the same way, by signatures and keys. Exit code 1
    where a release had fixed the bug of a finding.
    """
    book, registry = Ledger(ledger), BackendRegistry.discover(plugin or [])

    counts = Counter[AdditionKind]()
    with writing(ledger), book.locked(tell):
        adder = Adder(book, registry, date.today(), partial(Consent, given=plugin or []))
        for done in adder.add_all(campaign):
            counts[done.kind] += 1
            suffix = f": {done.message}" if done.message else ""
            typer.echo(f"{done.name}: {done.kind}{suffix}")
    held_back = known_occurrences(campaign, book.bugs()) if (campaign / FILE).is_file() else {}
    for name, count in held_back.items():
        typer.echo(f"{name or 'others'}: known, held back {count}x")
    typer.echo(_totals(counts, AdditionKind) or "there is no finding")
    raise typer.Exit(FINDINGS if counts[AdditionKind.BACK] else OK)


@bugs.command("list", cls=Grouped)
def list_(
    chosen: Chosen = None,
    ledger: LedgerFolder = LEDGER,
    state: Annotated[
        list[BugState] | None,
        REPORTED.option("Only those in this state; repeat it for several.", "STATE"),
    ] = None,
) -> None:
    """List the bugs with their states, and the releases in which they are."""
    book = Ledger.opened(ledger)
    bugs = {name: book.bug(name) for name in book.chosen(chosen or [])}
    bugs = {n: b for n, b in bugs.items() if not state or b.state in state}
    for name, bug in bugs.items():
        typer.echo(f"{bug.state:9} {name}  {bug.releases_line}  {bug.title[:WIDTH]}".rstrip())
    totals = _totals(Counter(bug.state for bug in bugs.values()), BugState)
    typer.echo(totals or "there is no such bug")


def _totals(counts: Counter[Any], order: Iterable[Any]) -> str:
    """ "3 new, 1 fixed"."""
    return ", ".join(f"{counts[kind]} {kind}" for kind in order if counts[kind])


@bugs.command(cls=Grouped)
def show(bug: BugName, ledger: LedgerFolder = LEDGER) -> None:
    """Show all that the ledger has of a bug."""
    book = Ledger.opened(ledger)
    typer.echo(bug_text(book.bug(bug)))
    for file in sorted(p for p in book.place(bug).iterdir() if p.is_file()):
        typer.echo(file)


@bugs.command("set", cls=Grouped)
def set_(
    bug: BugName,
    fields: Annotated[
        list[str],
        typer.Argument(
            metavar="FIELD=VALUE...",
            help="A field of bug.toml; a list has commas between, an empty value deletes.",
            show_default=False,
        ),
    ],
    ledger: LedgerFolder = LEDGER,
) -> None:
    """Set fields of a bug.

    \b
    nnfuzz bugs set tvm/mismatch-pow-c29550 state=filed upstream=https://example.org/issues/7
    """
    book = Ledger.opened(ledger)
    with writing(ledger), book.locked(tell):
        changed = _changed(book.bug(bug), fields)
        bugs = {**book.bugs(), bug: changed} if changed.duplicate_of else {bug: changed}
        if bugs[leader(bugs, bug)].duplicate_of:
            raise UsageError(f"duplicate_of: {changed.duplicate_of} is no bug, or leads to {bug}")
        book.put(bug, changed)


def _changed(bug: Bug, fields: list[str]) -> Bug:
    """The bug with fields as they were typed. Raises: UsageError, Unreadable."""
    data = fields_as_json(bug)
    for text in fields:
        name, equals, value = text.partition("=")
        if not equals or name not in NAMES or name == "releases":
            names = ", ".join(n for n in NAMES if n != "releases")
            raise UsageError(f"{text!r}: write FIELD=VALUE; fields are {names}")
        listed = [item for item in value.split(",") if item]
        data[name] = listed if isinstance(getattr(bug, name), tuple) else value
    return bug_of(data)


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

    A bug that a release does not show is fixed in it, and one that was fixed and shows again is
    back. A script that fails in another way than its bug is reported, and changes nothing. The
    scripts are programs that run with your rights: check ledgers of people whom you trust.
    """
    if release and python:
        raise UsageError("--release and --python: give one of them")
    if release and not chosen:
        raise UsageError("name the system that the release is of: nnfuzz bugs check SYSTEM ...")
    book, there = Ledger.opened(ledger), Interpreters(BackendRegistry.discover(plugin or []), tell)
    here = partial(there.of_python, python or sys.executable)
    choose = partial(there.of_release, release) if release else here
    checker = Checker(book, choose, tell, date.today(), not dry_run)
    done: list[Checked] = []
    with writing(ledger):
        for checked in checker.check_all(book.chosen(chosen or [])):
            done.append(checked)
            typer.echo(checked.line[:_SHOWN])
    news = [c.line for c in done if c.change in NEWS]
    rows = [c.row for c in done]
    write_reports(rows, "bugs", f"Bugs of {ledger}", news, junit, summary_md)
    totals = _totals(Counter(c.change for c in done), BugChange)
    typer.echo(totals or "there is no bug to check")
    if any(c.is_regression for c in done):
        raise typer.Exit(FINDINGS)
    ran = any(c.change is not BugChange.CANNOT_RUN for c in done)
    raise typer.Exit(OK if ran or not done else NOT_COMPARED)


@bugs.command(cls=Grouped)
def learn(chosen: Chosen = None, ledger: LedgerFolder = LEDGER, plugin: Plugins = None) -> None:
    """Compute what bugs are recognised by, from their models and by the rules of this nnfuzz.

    \b
    nnfuzz bugs learn onnxruntime

    For bugs that were written by hand or added by another nnfuzz: each model runs on the installed
    compiler and is reduced. A bug whose model does not fail here stays as it is.
    """
    from nnfuzz.library.learning import CANNOT, learned

    book, counts = Ledger.opened(ledger), Counter[str]()
    for name in book.chosen(chosen or []):
        try:
            bug = learned(book, name, [*map(str, plugin or [])])
        except CANNOT as error:
            counts["as before"] += 1
            tell(f"{name}: as before: {one_line(error)[:_SHOWN]}")
            continue
        counts["learnt"] += 1
        typer.echo(f"{name}: {len(bug.keys)} keys, {len(bug.signatures)} signatures")
        with writing(ledger), book.locked(tell):
            book.put(name, replace(book.bug(name), keys=bug.keys, signatures=bug.signatures))
    typer.echo(_totals(counts, counts) or "there is no bug to learn")


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

    A test runs the bug's script, which is put into a folder beside it. A bug without a script, or
    for node tests without a finding, is skipped with a message; exit code 1 if nothing was written.
    """
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
        except Unreadable as error:
            tell(f"{name}: no test: {error}")
            continue
        written += 1
        typer.echo(place)
    raise typer.Exit(OK if written else FINDINGS)
