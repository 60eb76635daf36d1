"""Tables of operators: their facts, cached since they need PyTorch, and support."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from nnfuzz.base.reading import Unreadable, read
from nnfuzz.feedback.support import Support
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.materialize.opsets import OPSETS, default_opset

if TYPE_CHECKING:
    from rich.table import Table

    from nnfuzz.ir.dtypes import DType
    from nnfuzz.operators.operator import OpSpec


EXPORTERS = tuple(name for name in OPSETS if name != "direct")
"""Direct emission has no column: it writes every legal signature."""


@dataclass(frozen=True)
class OperatorFacts:
    """One operator. cells: its columns of the table. keys: the written signatures that some opset
    admits. signatures: the number of all its signatures.
    """

    cells: tuple[str, ...]
    summary: str
    keys: tuple[str, ...]
    signatures: int


def cached_facts(place: Path, find: Callable[[], list[OperatorFacts]]) -> list[OperatorFacts]:
    """The result of `find`, from a file if it was made of the same sources; else it is written
    there.
    """
    digest = _digest()
    with contextlib.suppress(OSError, Unreadable, KeyError, TypeError, ValueError):
        cached = json.loads(place.read_text())
        if cached["of"] == digest:
            return read(list[OperatorFacts], cached["operators"])
    facts = find()
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"of": digest, "operators": [asdict(facts) for facts in facts]})
        place.write_text(text)
    return facts


def _digest() -> str:
    """A digest of the sources and libraries that the facts follow from."""
    from nnfuzz.operators.digest import specs_digest

    parts = [specs_digest((), ("check",)), version("onnx"), version("torch")]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def operator_facts(specs: Iterable[type[OpSpec]]) -> list[OperatorFacts]:
    """The facts on each operator, sorted by name."""
    from nnfuzz.check.legality import legal_signatures
    from nnfuzz.generate.catalog import signature_key

    specs = list(specs)
    written = [_written(specs, exporter) for exporter in EXPORTERS]
    facts = []
    for spec in sorted(specs, key=lambda s: s.name.lower()):
        keys = {signature_key(spec, *signature) for signature in legal_signatures(spec)}
        lo, hi = spec.arity()
        cells = (
            spec.name,
            spec.__module__.rpartition(".")[2],
            f"{spec.since}+",
            str(lo) if lo == hi else f"{lo}-{hi}",
            _ranks(spec),
            _dtypes(spec),
            *(share(len(keys & made), len(keys)) for made in written),
        )
        summary = inspect.cleandoc(vars(spec).get("__doc__") or "").partition("\n")[0]
        facts.append(OperatorFacts(cells, summary, tuple(sorted(keys)), len(spec.signatures())))
    return facts


def _written(specs: Iterable[type[OpSpec]], exporter: str) -> frozenset[str]:
    """The signatures that generation uses with an exporter, at the opset it has by default."""
    from nnfuzz.check.versions import admitted_by_schema
    from nnfuzz.generate.catalog import Catalog, NothingLeft
    from nnfuzz.generate.config import GenerateConfig

    opset = default_opset(exporter)
    there = [spec for spec in specs if spec.since <= opset]
    config = admitted_by_schema(GenerateConfig(exporter=exporter, opset=opset), there)
    try:
        return frozenset(Catalog(there, config).signature_keys())
    except NothingLeft:
        return frozenset()


def share(part: int, whole: int) -> str:
    """ "yes" for all, "no" for none, "12 of 14"."""
    if part in (0, whole):
        return "no" if not part else "yes"
    return f"{part} of {whole}"


def _ranks(spec: type[OpSpec]) -> str:
    """The ranks that each input admits, such as "1-5, 0"; written once where all are the same."""
    texts = [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in (p.ranks for p in spec.inputs)]
    return texts[0] if len(set(texts)) == 1 else ", ".join(texts)


def _dtypes(spec: type[OpSpec]) -> str:
    """The dtypes of each type variable that some opset admits; then those of a distinct output."""
    from nnfuzz.check.legality import legal_signatures

    signatures = legal_signatures(spec)
    variables = dict.fromkeys(pattern.var for pattern in spec.inputs)
    parts = [_names(binding[var] for binding, _ in signatures) for var in variables]
    if spec.output not in variables:
        parts.append("-> " + _names(output for _, output in signatures))
    return "; ".join(parts)


def _names(dtypes: Iterable[DType]) -> str:
    from nnfuzz.ir.dtypes import DType

    named = set(dtypes)
    return " ".join(dtype.value for dtype in DType if dtype in named)


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
