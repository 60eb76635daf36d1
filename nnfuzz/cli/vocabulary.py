"""The table of operators: opset, dtypes, ranks, and the support by exporters and by backends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnfuzz.cli.operator_facts import EXPORTERS, OperatorFacts, operator_facts, share
from nnfuzz.feedback.support import Support
from nnfuzz.ir.support_key import SupportKey

if TYPE_CHECKING:
    from rich.table import Table

    from nnfuzz.operators.operator import OpSpec

HEADINGS = ("operator", "family", "opset", "inputs", "ranks", "dtypes", *EXPORTERS)
UNKNOWN = "?"
FEW = ("operator", "opset", "ranks", "dtypes")
"""The headings that a terminal has unless all are asked for."""
NARROW = 100  # columns of a terminal that dtypes do not fit into
_WRAPPED = {"ranks": 8, "dtypes": 22}
"""Headings of columns that may wrap in a terminal, and their least widths."""


@dataclass(frozen=True)
class OperatorRow:
    """One operator. cells: in the order of HEADINGS, then one per backend."""

    cells: tuple[str, ...]
    summary: str


def rows(specs: Iterable[type[OpSpec]], supports: Mapping[str, Support]) -> list[OperatorRow]:
    """One row per operator, sorted by name; `supports` has the table of each backend."""
    return with_support(operator_facts(specs), supports)


def with_support(
    operators: Iterable[OperatorFacts], supports: Mapping[str, Support]
) -> list[OperatorRow]:
    """The rows of operators with known facts."""
    return [
        OperatorRow(
            (*facts.cells, *(support_share(support, facts.keys) for support in supports.values())),
            facts.summary,
        )
        for facts in operators
    ]


def support_share(support: Support, keys: Collection[str]) -> str:
    """The support of an operator's signatures: "yes", "no", "12 of 14", "?" if unknown."""
    decided = [support.entries.get(SupportKey.parse(key)) for key in keys]
    known = [entry for entry in decided if entry and entry.status]
    if not known:
        return UNKNOWN
    works = sum(not entry.refused for entry in known)
    open_ = f", {len(keys) - len(known)} {UNKNOWN}" if len(known) < len(keys) else ""
    return share(works, len(known)) + open_


def rich_table(
    rows: Sequence[OperatorRow], backends: Sequence[str], width: int, whole: bool = False
) -> Table:
    """The table for a terminal of `width` columns; a narrow one shows support only.

    backends: headings of the columns behind HEADINGS. whole: with all columns.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    own = HEADINGS if whole else FEW if width >= NARROW else FEW[:1]
    headings = (*HEADINGS, *backends)
    columns = [place for place, name in enumerate(headings) if name in own or name in backends]
    for heading in (headings[place] for place in columns):
        wraps = heading in _WRAPPED or heading in backends
        table.add_column(heading, no_wrap=not wraps, min_width=_WRAPPED.get(heading))
    for row in rows:
        table.add_row(*(row.cells[place] for place in columns))
    return table
