"""Tables of operators: their facts, and their support by compilers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnfuzz.feedback.support import Support
from nnfuzz.ir.support_key import SupportKey

if TYPE_CHECKING:
    from rich.table import Table

    from nnfuzz.check.instances import SignatureTypes
    from nnfuzz.check.legality import Judgements
    from nnfuzz.ir.dtypes import DType
    from nnfuzz.operators.operator import OpSpec


HEADINGS = ("operator", "opset", "ranks", "dtypes")
UNKNOWN = "?"
NARROW = 100  # columns of a terminal that HEADINGS do not fit into
_WRAPPED = {"ranks": 8, "dtypes": 22}
"""Headings of columns that may wrap in a terminal, and their least widths."""


@dataclass(frozen=True)
class OperatorFacts:
    """One operator. cells: in the order of HEADINGS. keys: the written signatures that some opset
    admits. signatures: the number of all its signatures.
    """

    cells: tuple[str, ...]
    keys: tuple[str, ...]
    signatures: int


def operator_facts(
    specs: Iterable[type[OpSpec]], judgements: Judgements | None = None
) -> list[OperatorFacts]:
    """The facts on each operator, sorted by name. judgements: those of earlier processes are taken
    from them, and new ones are kept there.
    """
    from nnfuzz.check.legality import NOTHING_KEPT, legal_signatures
    from nnfuzz.generate.catalog import signature_key

    facts, judgements = [], judgements or NOTHING_KEPT
    for spec in sorted(specs, key=lambda s: s.name.lower()):
        legal = legal_signatures(spec, judgements)
        keys = {signature_key(spec, *signature) for signature in legal}
        cells = (spec.name, f"{spec.since}+", _ranks(spec), _dtypes(spec, legal))
        facts.append(OperatorFacts(cells, tuple(sorted(keys)), len(spec.signatures())))
    judgements.save()
    return facts


def share(part: int, whole: int) -> str:
    """ "yes" for all, "no" for none, "12 of 14"."""
    if part in (0, whole):
        return "no" if not part else "yes"
    return f"{part} of {whole}"


def _ranks(spec: type[OpSpec]) -> str:
    """The ranks that each input admits, such as "1-5, 0"; written once where all are the same."""
    texts = [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in (p.ranks for p in spec.inputs)]
    return texts[0] if len(set(texts)) == 1 else ", ".join(texts)


def _dtypes(spec: type[OpSpec], signatures: Sequence[SignatureTypes]) -> str:
    """The dtypes of each type variable in some signatures; then those of a distinct output."""
    variables = dict.fromkeys(pattern.var for pattern in spec.inputs)
    parts = [_names(binding[var] for binding, _ in signatures) for var in variables]
    if spec.output not in variables:
        parts.append("-> " + _names(output for _, output in signatures))
    return "; ".join(parts)


def _names(dtypes: Iterable[DType]) -> str:
    from nnfuzz.ir.dtypes import DType

    named = set(dtypes)
    return " ".join(dtype.value for dtype in DType if dtype in named)


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
    operators: Iterable[OperatorFacts], supports: Mapping[str, Support], width: int
) -> Table:
    """The table for a terminal of `width` columns; a narrow one shows names and support only.

    supports: of each backend, by the heading of its column.
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    own = HEADINGS if width >= NARROW else HEADINGS[:1]
    for heading in (*own, *supports):
        wraps = heading in _WRAPPED or heading in supports
        table.add_column(heading, no_wrap=not wraps, min_width=_WRAPPED.get(heading))
    for facts in operators:
        shares = (support_share(support, facts.keys) for support in supports.values())
        table.add_row(*facts.cells[: len(own)], *shares)
    return table
