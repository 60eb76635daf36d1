"""`nnfuzz file FINDING`: the issue for the compiler's tracker, and with gh its duplicates."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli import completion
from nnfuzz.cli.declared import OTHERS
from nnfuzz.cli.errors import OK, UsageError, tell
from nnfuzz.cli.limits import computing
from nnfuzz.cli.options import Original, Plugins

if TYPE_CHECKING:
    from nnfuzz.backend.issue_form import IssueForm
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.report.issue import Issue

GH = "gh"
SECONDS = 30.0
"""For an answer of gh."""
MOST = 5
COMPUTING = 300.0
"""CPU seconds for the text of the issue."""


def file(
    finding: Annotated[Path, typer.Argument(help="Folder of a finding.", show_default=False)],
    tracker: Annotated[
        str,
        OTHERS.option(
            "Use the tracker of this backend [default: of the finding's].",
            "BACKEND",
            autocompletion=completion.complete_backends,
        ),
    ] = "",
    original: Original = False,
    plugin: Plugins = None,
) -> None:
    """Print a finding as an issue in the form of the compiler's tracker.

    \b
    nnfuzz file campaign/findings/tvm-mismatch-eaa1ca026673
    nnfuzz file campaign/findings/NAME > issue.md

    The reduced finding is taken where there is one. In a terminal with gh (the GitHub command line)
    it then asks whether to look for duplicates, and whether to open the issue; nothing is sent
    without a yes.
    """
    from nnfuzz.base.untrusted import read_text
    from nnfuzz.cli.consent import Consent
    from nnfuzz.cli.findings import backends_of, chosen_model, open_with_consent
    from nnfuzz.report.issue import issue

    folder = chosen_model(finding, original)
    consent = Consent(folder, plugin or [])
    found = open_with_consent(folder, consent)
    name = tracker or found.failure.backend
    form = _form(name, backends_of(found, plugin or [], consent, name))
    script = folder / "repro.py"
    with computing(COMPUTING):  # what the standard's reference makes of it, among others
        made = issue(found, form, read_text(script) if script.is_file() else "")
    typer.echo(f"{made.title}\n\n{made.body}")
    for name in made.attachments:
        tell(f"to be attached by hand: {folder / name}")
    if sys.stdin.isatty() and sys.stdout.isatty():
        _offer(made)
    raise typer.Exit(OK)


def _form(name: str, backends: BackendRegistry) -> IssueForm:
    """Raises: UsageError if the adapter names no tracker; RegistryError."""
    form = backends.get(name).issue_form
    if form is None:
        raise UsageError(
            f"the adapter of {name} names no tracker (Backend.issue_form): paste report.md, or "
            "name another backend's with --tracker"
        )
    return form


def _offer(made: Issue) -> None:
    """Looks for duplicates and opens the issue, each after a question."""
    if shutil.which(GH) is None:
        tell(f"to look for duplicates in {made.repository} and to open it from here, install gh")
        return
    asked = f"Search {made.repository} for {made.search!r} with gh?"
    if typer.confirm(asked, err=True):
        alike = duplicates(made)
        typer.echo("\n".join(alike) or "nothing alike was found", err=True)
    if typer.confirm(f"Open this issue in {made.repository}?", default=False, err=True):
        typer.echo(opened(made))


def duplicates(made: Issue) -> list[str]:
    """A line for each issue that has all words of the search. Raises: UsageError."""
    fields = ("--json", "number,title,state,url", "--limit", str(MOST))
    found = _gh("search", "issues", "--repo", made.repository, *fields, "--", made.search)
    try:
        return [f"{i['state']} {i['title']}\n    {i['url']}" for i in json.loads(found)]
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
    """What gh prints. Raises: UsageError."""
    try:
        done = subprocess.run([GH, *arguments], capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"gh does not answer: {error}") from error
    if done.returncode:
        raise UsageError(f"gh: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout
