"""The answers of reference implementations on the operators, as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.check.arbitration import AGREES, UNABLE, Arbitration, Example, Weighed
from nnfuzz.ir.dtypes import plain

if TYPE_CHECKING:
    from rich.table import Table

SHOWN = 12
"""Elements of a tensor that an example shows."""


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


def _example(example: Example) -> list[str]:
    question, text = example
    lines = [str(question)]
    for i, array in enumerate(question.arrays):
        if array.size <= SHOWN:
            values = np.array2string(plain(array), separator=", ", max_line_width=1 << 20)
            lines.append(f"x{i} = {' '.join(values.split())}")
    return [*lines, text]
