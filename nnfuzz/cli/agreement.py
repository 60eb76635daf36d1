"""The answers of reference implementations on the operators, as a table and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnfuzz.check.arbitration import AGREES, STRICT, UNABLE, Arbitration, Example, Weighed
from nnfuzz.check.runtimes import EVALUATOR
from nnfuzz.ir.dtypes import plain
from nnfuzz.operators.waiver import Waiver
from nnfuzz.report.templating import environment

if TYPE_CHECKING:
    from rich.table import Table

LONGEST = 300
"""Characters of an error message."""
SHOWN = 12
"""Elements of a tensor that the page shows."""


def agreement_table(weighed: Sequence[Weighed]) -> Table:
    """A rich table for the terminal: per operator, how often each implementation agreed."""
    from rich.table import Table

    names = implementations(weighed)
    table = Table()
    for heading in ("operator", "drawn", "confirmed", *names):
        table.add_column(heading, justify="left" if heading == "operator" else "right")
    for report, arbitration in weighed:
        counts = (str(arbitration.drawn), str(arbitration.confirmed))
        cells = [_answers(arbitration, name) for name in names]
        table.add_row(arbitration.operator, *counts, *cells, style="" if report.ok else "red")
    return table


def waivers(weighed: Iterable[Weighed]) -> Iterator[str]:
    """Lines that list every waiver which an instance needed, with its smallest example."""
    for _, arbitration in weighed:
        for waiver, example in arbitration.examples.items():
            count = arbitration.waived[waiver]
            claim = f"{waiver.implementation} {waiver.claim}"
            yield f"{arbitration.operator}: {claim} ({count} times here)"
            yield f"    decided by {waiver.clause}"
            if example is not None:
                yield from (f"    {text}" for text in _example(example))


def implementations(weighed: Iterable[Weighed]) -> list[str]:
    """Names of all reference implementations that ran, in order."""
    return list(dict.fromkeys(name for _, arbitration in weighed for name in arbitration.answers))


def _answers(arbitration: Arbitration, name: str) -> str:
    """How often an implementation agreed: "50", "50 of 57", "" where it cannot run any instance."""
    counts = arbitration.answers.get(name, Counter[str]())
    able = sum(counts.values()) - counts.get(UNABLE, 0)
    agreed = counts.get(AGREES, 0)
    return ("" if not able else str(agreed)) + (f" of {able}" if agreed < able else "")


# -- the page ---------------------------------------------------------------------------------


def agreement_page(
    weighed: Sequence[Weighed], declared: Sequence[tuple[str, Waiver]], wanted: int, versions: str
) -> str:
    """The page of `nnfuzz ops check --page`. declared: (operator, waiver) for all of them."""
    weighed = sorted(weighed, key=lambda pair: pair[1].operator.lower())
    arbitrations = {arbitration.operator: arbitration for _, arbitration in weighed}
    names = implementations(weighed)
    rows = [
        {
            "report": report,
            "arbitration": one,
            "agreements": one.agreed(EVALUATOR),
            "answers": [_answers(one, name) for name in names],
            "helpless": _brief(one.unable.get(EVALUATOR, "")),
            "unable": one.answers.get(EVALUATOR, Counter())[UNABLE],
        }
        for report, one in weighed
    ]
    page = environment(own=True).get_template("agreement.md.jinja")
    return page.render(
        versions=versions,
        wanted=wanted,
        found=rows,
        names=names,
        problems=sum(len(report.problems) for report, _ in weighed),
        waivers=[
            _waiver(name, waiver, arbitrations.get(name))
            for name, waiver in sorted(declared, key=lambda pair: pair[0].lower())
        ],
        differing=[
            f"{name}: {_brief(text)}"
            for one in arbitrations.values()
            for name, text in dict(one.unexplained).items()
            if name not in STRICT
        ],
    )


def entry(name: str, waiver: Waiver) -> list[str]:
    """The lines of the page that name a waiver and the clause of the standard that decides."""
    known = f" Known as {waiver.known}." if waiver.known else ""
    first = f"**{name}**: {waiver.implementation} {waiver.claim}."
    stop = "" if waiver.clause.endswith('."') else "."
    return [first, f"Decided by {waiver.clause}{stop}{known}"]


def _waiver(name: str, waiver: Waiver, arbitration: Arbitration | None) -> dict[str, object]:
    fields: dict[str, Any] = {
        "entry": "\n".join(entry(name, waiver)),
        "arbitration": arbitration,
        "example": (),
    }
    if arbitration and (example := arbitration.examples.get(waiver)):
        counts = {"shown": arbitration.waived[waiver], "settled": arbitration.settled[waiver]}
        fields |= {"example": _example(example), **counts}
    return fields


def _brief(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _example(example: Example) -> list[str]:
    question, text = example
    lines = [str(question)]
    for i, array in enumerate(question.arrays):
        if array.size <= SHOWN:
            values = np.array2string(plain(array), separator=", ", max_line_width=1 << 20)
            lines.append(f"x{i} = {' '.join(values.split())}")
    return [*lines, text]
