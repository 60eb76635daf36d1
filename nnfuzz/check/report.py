"""The result of checking an operator spec, and its rendering."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from nnfuzz.operators.waiver import Waiver

if TYPE_CHECKING:
    from rich.table import Table

MOST_PROBLEMS = 20
AGREES, WAIVED, DIFFERS, UNABLE = "agrees", "waived", "differs", "unable"
"""Answers of a reference implementation: WAIVED if it differs where a waiver says so."""


@dataclass
class CheckReport:
    """Counts and problems of one operator; `problems` is empty for a conforming spec.

    forward, backward: solved instances that were checked. unsolved: drawn, but not solved.
    accepted: blind instances that PyTorch runs and ONNX defines. refused: the accepted ones that
    `requires` refuses. torch_only: further refused instances that PyTorch runs and ONNX rejects or
    understands differently. broken: instances with one broken condition. torch_rejects: broken
    ones that PyTorch rejects as well. needless: broken ones that both judges accept, so that the
    condition is too strict. unconfirmed: solved instances whose values no ONNX runtime can compute.
    empty: instances without elements that were checked.
    answers: how often each reference implementation agrees, is waived, differs or is unable.
    waived: how often each waiver explained a difference. examples: an instance that shows a waiver,
    as lines; None if none was found.
    """

    operator: str
    forward: int = 0
    backward: int = 0
    unsolved: int = 0
    unconfirmed: int = 0
    accepted: int = 0
    refused: int = 0
    torch_only: int = 0
    broken: int = 0
    torch_rejects: int = 0
    needless: int = 0
    empty: int = 0
    problems: list[str] = field(default_factory=list)
    example: str = ""
    answers: dict[str, Counter[str]] = field(default_factory=dict)
    waived: Counter[Waiver] = field(default_factory=Counter)
    examples: dict[Waiver, list[str] | None] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the operator has no problem."""
        return not self.problems

    @property
    def refused_share(self) -> float:
        """Share of the instances acceptable to both judges that `requires` refuses."""
        return self.refused / self.accepted if self.accepted else 0.0

    def problem(self, text: str) -> None:
        """Add a problem, up to MOST_PROBLEMS of them."""
        if len(self.problems) < MOST_PROBLEMS and text not in self.problems:
            self.problems.append(text)


COUNTS = tuple(each.name for each in fields(CheckReport) if each.type == "int")


def report_table(reports: Sequence[CheckReport]) -> Table:
    """The reports as a table for rich, one operator a line.

    The last columns say how often each reference implementation agreed.
    """
    from rich.table import Table

    names = list(dict.fromkeys(name for r in reports for name in r.answers))
    result = Table()
    for i, column in enumerate(["operator", *COUNTS, "problems", *names]):
        result.add_column(column.replace("_", " "), justify="right" if i else "left")
    for r in reports:
        counts = {name: str(getattr(r, name)) for name in COUNTS}
        if r.refused:
            counts["refused"] += f" ({r.refused_share:.0%})"
        cells = [*counts.values(), str(len(r.problems)), *(_agreed(r, name) for name in names)]
        result.add_row(r.operator, *cells, style="" if r.ok else "red")
    return result


def _agreed(report: CheckReport, name: str) -> str:
    """How often an implementation agreed: "50", "50 of 57", "" where it cannot run any instance."""
    counts = report.answers.get(name, Counter[str]())
    able = sum(counts.values()) - counts[UNABLE]
    agreed = counts[AGREES]
    return ("" if not able else str(agreed)) + (f" of {able}" if agreed < able else "")


def listing(reports: Iterable[CheckReport]) -> Iterator[str]:
    """Problems, examples of needless refusals and waivers with their examples, line by line."""
    for r in reports:
        for waiver, example in r.examples.items():
            claim = f"{waiver.implementation} {waiver.claim}"
            yield f"{r.operator}: {claim} ({r.waived[waiver]} times here)"
            known = f"; known as {waiver.known}" if waiver.known else ""
            yield f"    decided by {waiver.clause}{known}"
            yield from (f"    {line}" for line in example or ())
        yield from (f"{r.operator}: {text}" for text in r.problems)
        if r.example:
            yield f"{r.operator}: {r.example}"
