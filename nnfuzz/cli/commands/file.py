"""`nnfuzz file FINDING`: the issue for the compiler's tracker, and a search for duplicates."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.backend.issue_form import PLAIN
from nnfuzz.cli.errors import OK, UsageError, tell
from nnfuzz.cli.limits import computing
from nnfuzz.cli.options import REPORTED, Original, Plugins

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

    The reduced finding is taken where there is one. A finding that the ledger has as filed already
    is refused with exit code 2. Nothing is sent; a note has the search for duplicates.
    """
    from nnfuzz.base.untrusted import read_text
    from nnfuzz.bugs.ledger import Ledger, bugs_of, recognised_by, refusal
    from nnfuzz.cli.consent import Consent
    from nnfuzz.cli.findings import backends_of, chosen_model, open_finding
    from nnfuzz.findings.report import issue

    folder = chosen_model(finding, original)
    consent = Consent(folder, plugin or [])
    loaded = open_finding(folder, consent)
    name = tracker or loaded.failure.backend
    registry = backends_of(loaded, plugin or [], consent, name)
    book = Ledger(ledger)
    bugs = book.bugs() if ledger.is_dir() else {}
    own = bugs_of(bugs, *recognised_by({finding, folder}, registry), loaded.system)
    if (refused := refusal(bugs, own, loaded.system, max_open)) and not again:
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
    if made.repository:
        words = f"gh search issues --repo {made.repository} -- {shlex.quote(made.search)}"
        tell(f"to look for duplicates: {words}")
    if bug:
        tell(f"once it is filed: nnfuzz bugs set {bug} state=filed upstream=URL")
    raise typer.Exit(OK)
