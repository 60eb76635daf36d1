"""`nnfuzz file FINDING`: the issue for the compiler's tracker, and with gh its duplicates."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.backend.issue_form import PLAIN
from nnfuzz.base.programs import run_program
from nnfuzz.cli.declared import REPORTED
from nnfuzz.cli.errors import OK, UsageError, tell
from nnfuzz.cli.limits import computing
from nnfuzz.cli.options import Original, Plugins

if TYPE_CHECKING:
    from nnfuzz.bugs.ledger import Ledger
    from nnfuzz.report.issue import Issue

GH = "gh"
SECONDS = 30.0
"""The time limit of an answer of gh."""
MOST = 5
COMPUTING = 300.0
"""CPU seconds for the text of the issue."""


def file(
    finding: Annotated[Path, typer.Argument(help="Folder of a finding.", show_default=False)],
    tracker: Annotated[
        str,
        REPORTED.option(
            "Use the tracker of this backend [default: of the finding's].",
            "BACKEND",
        ),
    ] = "",
    original: Original = False,
    ledger: Annotated[
        Path,
        REPORTED.option(
            "The ledger with the bugs that are filed already.", "FOLDER", "--ledger", "-l"
        ),
    ] = Path("bugs"),
    max_open: Annotated[
        int,
        REPORTED.option("Refuse while this many issues of the compiler are open.", "N", min=0),
    ] = 0,
    again: Annotated[
        bool, REPORTED.flag("Print the issue although it is filed already.", "--again")
    ] = False,
    plugin: Plugins = None,
) -> None:
    """Print a finding, or a bug of a ledger, as an issue in the form of the compiler's tracker.

    \b
    nnfuzz file campaign/findings/tvm-mismatch-eaa1ca026673
    nnfuzz file bugs/tvm/mismatch-pow-c29550 --max-open 5 > issue.md

    The reduced finding is taken where there is one. A finding that the ledger has as
    filed already is refused with exit code 2. In a terminal with gh (the GitHub command line)
    it then asks whether to look for duplicates, and whether to open the issue; nothing is sent
    without a yes, and the ledger learns of an issue that was opened.
    """
    from nnfuzz.base.untrusted import read_text
    from nnfuzz.bugs.filing import refusal, system_of
    from nnfuzz.bugs.ledger import Ledger, bugs_of, recognised_by
    from nnfuzz.cli.consent import Consent
    from nnfuzz.cli.findings import backends_of, chosen_model, open_with_consent
    from nnfuzz.report.issue import issue

    folder = chosen_model(finding, original)
    consent = Consent(folder, plugin or [])
    loaded = open_with_consent(folder, consent)
    name = tracker or loaded.failure.backend
    registry = backends_of(loaded, plugin or [], consent, name)
    book = Ledger(ledger)
    bugs = book.bugs() if ledger.is_dir() else {}
    own = bugs_of(bugs, *recognised_by({finding, folder}, registry), system_of(loaded))
    if (refused := refusal(bugs, own, system_of(loaded), max_open)) and not again:
        raise UsageError(f"{refused}; --again files it all the same")
    bug = "".join(own[:1])
    releases = bugs[bug].releases_line if bug else ""
    script = folder / "repro.py"
    with computing(COMPUTING):  # the value of the standard's reference, among others
        made = issue(
            loaded,
            registry.get(name).issue_form or PLAIN,
            read_text(script) if script.is_file() else "",
            f"It is known in the releases {releases}." if releases else "",
        )
    typer.echo(f"{made.title}\n\n{made.body}")
    for attached in made.attachments:
        tell(f"to be attached by hand: {folder / attached}")
    if sys.stdin.isatty() and sys.stdout.isatty() and made.repository:
        url = _offer(made)
        if url and bug:
            _filed(book, bug, url)
    raise typer.Exit(OK)


def _filed(ledger: Ledger, name: str, url: str) -> None:
    """Keeps the address of an issue that was opened. Raises: BugError, OSError."""
    from nnfuzz.bugs.bug import BugState

    with ledger.locked(tell):
        bug = ledger.bug(name)
        ledger.put(name, replace(bug, state=BugState.FILED, upstream=url))
    tell(f"{name} is filed in the ledger {ledger.folder}")


def _offer(made: Issue) -> str:
    """Looks for duplicates and opens the issue, each after a question; returns its address."""
    if shutil.which(GH) is None:
        tell(f"to look for duplicates in {made.repository} and to open it from here, install gh")
        return ""
    question = f"Search {made.repository} for {made.search!r} with gh?"
    if typer.confirm(question, err=True):
        similar = duplicates(made)
        typer.echo("\n".join(similar) or "no similar issue was found", err=True)
    if not typer.confirm(f"Open this issue in {made.repository}?", default=False, err=True):
        return ""
    url = opened(made)
    typer.echo(url)
    return url


def duplicates(made: Issue) -> list[str]:
    """A line for each issue that has all words of the search. Raises: UsageError."""
    fields = ("--json", "number,title,state,url", "--limit", str(MOST))
    answer = _gh("search", "issues", "--repo", made.repository, *fields, "--", made.search)
    try:
        return [f"{i['state']} {i['title']}\n    {i['url']}" for i in json.loads(answer)]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"the answer of gh is not understood: {error!r}") from error


def opened(made: Issue) -> str:
    """Opens the issue; returns its address. Raises: UsageError."""
    with tempfile.NamedTemporaryFile("w", suffix=".md", encoding="utf-8") as body:
        body.write(made.body)
        body.flush()
        where = ("--repo", made.repository, "--title", made.title, "--body-file", body.name)
        return _gh("issue", "create", *where).strip()


def _gh(*arguments: str) -> str:
    """The output of gh. Raises: UsageError."""
    try:
        done = run_program([GH, *arguments], timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"gh does not answer: {error}") from error
    if done.returncode:
        raise UsageError(f"gh: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout
