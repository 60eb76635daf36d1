"""Files the findings of one campaign, and asks whether those of another one may be filed as well.

A finding whose cause is filed already has to be refused, and one of another cause must not be.

    nnfuzz fuzz -b immature,timeout=8 --plugin planted/immature.py --tests 2500 --seed 1 --out A
    nnfuzz fuzz -b immature,timeout=8 --plugin planted/immature.py --tests 2500 --seed 2 --out B
    python -m scripts.check.filing A B --truth planted/immature.py

The causes come from a plug-in of a planted compiler, or, for a real one, from a person's
judgements of both campaigns, as scripts/check/triage.py prints and reads them (--judged). Each
finding of B is asked about three times: all findings of A with its cause are filed; each of these
is filed alone, which is harder, since a cause that hits several operators has a finding for each;
all findings of A with other causes are filed. Findings that fail for several causes are left out.
Prints the counts and each finding that is not treated as wanted; exits with 1 if one of the first
kind is not refused, or one of the third kind is.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.backend.registry import BackendRegistry, import_plugin
from nnfuzz.bugs.adding import Adder
from nnfuzz.bugs.bug import Bug, BugState
from nnfuzz.bugs.filing import refusal, system_of
from nnfuzz.bugs.ledger import Ledger, bugs_of, recognised_by
from nnfuzz.findings.folder import read_finding
from scripts.check.triage import Row, judged, read_rows, score


@dataclass(frozen=True)
class Caused:
    """A finding with its only cause."""

    row: Row
    cause: str


class Before(StrEnum):
    """What was filed before a finding was asked about."""

    CAUSE = "its cause is filed"
    ALONE = "one finding of its cause is filed"
    OTHERS = "other causes are filed"


@dataclass(frozen=True)
class Answer:
    """Whether a finding was refused."""

    caused: Caused
    before: Before
    refusal: str

    @property
    def is_wanted(self) -> bool:
        return bool(self.refusal) is (self.before is not Before.OTHERS)


def caused(campaign: Path, truth: Path | None, judgements: Path | None) -> list[Caused]:
    """The findings of a campaign that fail for one cause."""
    rows = read_rows(campaign)
    found = (
        judged(rows, judgements)
        if judgements
        else score(rows, import_plugin(truth or "").causes_of)
    )
    causes = found.causes
    return [Caused(row, *causes[row.hash]) for row in rows if len(causes[row.hash]) == 1]


def filed(row: Row, registry: BackendRegistry) -> Bug:
    """The bug of a ledger to which a finding was added, once it is filed."""
    with tempfile.TemporaryDirectory() as folder:
        book = Ledger(Path(folder) / "bugs")
        (added,) = Adder(book, registry, date.today()).add_all(row.folder)
        bug = book.bug(added.name)
    return replace(bug, state=BugState.FILED, upstream=f"https://example.org/{row.hash}")


def asked(row: Row, bugs: Mapping[str, Bug], registry: BackendRegistry) -> str:
    """Why a finding may not be filed; "" if it may."""
    finding = read_finding(row.smallest)
    signatures, keys = recognised_by({row.folder, row.smallest}, registry)
    own = bugs_of(bugs, signatures, keys, system_of(finding))
    return refusal(bugs, own, system_of(finding), 0)


def pairs(first: list[Caused], second: list[Caused], registry: BackendRegistry) -> Iterator[Answer]:
    """The answers for the findings of the second campaign."""
    bugs = {one.row.hash: filed(one.row, registry) for one in first}
    for two in second:
        same = {n: bugs[n] for n in (one.row.hash for one in first if one.cause == two.cause)}
        others = {n: bug for n, bug in bugs.items() if n not in same}
        cases = [(Before.CAUSE, same)] if same else []
        cases += [(Before.ALONE, {n: bug}) for n, bug in same.items()]
        for before, own in [*cases, (Before.OTHERS, others)]:
            yield Answer(two, before, asked(two.row, own, registry))


def main(
    first: Annotated[Path, typer.Argument(help="Campaign whose findings are filed.")],
    second: Annotated[Path, typer.Argument(help="Campaign of another seed.")],
    truth: Annotated[Path | None, typer.Option(help="Plug-in with causes_of.")] = None,
    judgements: Annotated[
        Path | None, typer.Option("--judged", help="HASH CAUSE lines for both campaigns.")
    ] = None,
) -> None:
    if (truth is None) == (judgements is None):
        sys.exit("error: name --truth PLUGIN or --judged FILE")
    registry = BackendRegistry.discover([truth] if truth else [])
    one, two = (caused(campaign, truth, judgements) for campaign in (first, second))
    answers = list(pairs(one, two, registry))
    for before in Before:
        own = [answer for answer in answers if answer.before is before]
        causes = {answer.caused.cause for answer in own}
        refused = sum(bool(answer.refusal) for answer in own)
        print(f"{before}: {len(own)} findings of {len(causes)} causes, {refused} refused")
    wrong = [answer for answer in answers if not answer.is_wanted]
    for answer in wrong:
        row, why = answer.caused.row, answer.refusal or "not refused"
        print(f"{answer.caused.cause}: {row.hash} {row.data['title']}: {answer.before}, {why}")
    sys.exit(any(answer.before is not Before.ALONE for answer in wrong))


if __name__ == "__main__":
    typer.run(main)
