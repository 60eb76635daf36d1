"""Scores the findings of a campaign: triage should make one finding of every cause.

The plug-in file of a planted compiler has `causes_of(model, inputs)`, which names the causes by
which the model of a finding really fails. It gives these counts:

    python -m scripts.check.triage CAMPAIGN --truth tests/planted/immature.py
    python -m scripts.check.triage --truth tests/planted/immature.py -- -b immature --time 5m

  findings    listed by the campaign (narrowings that are said once in the summary are none)
  reduced     of these
  causes      distinct ones that have a finding of their own; missed ones by name
  duplicates  findings whose cause an earlier finding has as well
  unclear     not reduced, and failing for several causes, none of which is theirs alone
  buckets     findings with members (suspects, duplicates that were merged) that do not
              fail for the finding's cause
  unplanted   findings that fail for no planted cause: a fault of nnfuzz or of what computes nodes

The causes on a real compiler are unknown. Without --truth the findings are printed as Markdown with
what a person needs to judge them: title, explanation, model, error or wrong element, accused.

    python -m scripts.check.triage CAMPAIGN > findings.md

With --ledger the script prints how well a ledger recognises its bugs. A bug that fails here has two
lines: one for its model as it is, and one for that model with other names, at another opset and
beside another operator.

    python -m scripts.check.triage --ledger docs/bugs --system onnxruntime

Exit code 1 if the duplicates, the buckets or the share of reduced findings are beyond the bounds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import onnx
import typer
from onnx import version_converter

from nnfuzz.backend.registry import BackendRegistry, import_plugin
from nnfuzz.base.untrusted import read_npz
from nnfuzz.bugs.ledger import Ledger, bugs_of, leader
from nnfuzz.library.case import case_from_onnx
from nnfuzz.library.learning import CANNOT, model_of, recognising
from nnfuzz.materialize.names import put_before
from nnfuzz.reduction.case import NotReduced
from nnfuzz.testcase.case import TestCase

REDUCED = "reduced"
NEWEST = 21
"""The opset of varied models."""
MAX_MODEL = 3000
"""Most printed characters of a model's text and of an error."""

Truth = Callable[[bytes, Mapping[str, Any]], set[str]]


@dataclass(frozen=True)
class Row:
    """A finding as the campaign's summary lists it. members: folders of the findings merged with
    it."""

    data: Mapping[str, Any]
    folder: Path
    members: tuple[Path, ...] = ()

    @property
    def hash(self) -> str:
        return self.data["signature"]

    @property
    def others(self) -> list[str]:
        """The signatures that were merged with it."""
        return [*self.data.get("duplicates", ()), *self.data.get("suspects", ())]

    @property
    def smallest(self) -> Path:
        """The folder of the smallest model."""
        reduced = self.folder / REDUCED
        return reduced if reduced.is_dir() else self.folder

    @property
    def reduced(self) -> bool:
        return self.smallest != self.folder


@dataclass
class Score:
    """The score of the findings in the order of the campaign's list; the module explains its
    fields."""

    rows: list[Row]
    causes: dict[str, set[str]] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)
    duplicates: dict[str, str] = field(default_factory=dict)
    unclear: list[str] = field(default_factory=list)
    unplanted: list[str] = field(default_factory=list)
    buckets: dict[str, list[str]] = field(default_factory=dict)

    @property
    def reduced(self) -> int:
        return sum(row.reduced for row in self.rows)


def read_rows(campaign: Path) -> list[Row]:
    """The listed findings. Raises: OSError, ValueError if there is no summary."""
    summary = json.loads((campaign / "summary.json").read_text())
    folders = {path.parent.name: path.parent for path in campaign.glob("*/*/finding.json")}
    by_hash = {name.rpartition("-")[2]: folder for name, folder in folders.items()}
    found = []
    for data in summary["signatures"]:
        row = Row(data, campaign / data["folder"])
        members = tuple(by_hash[h] for h in row.others if h in by_hash)
        found.append(replace(row, members=members))
    return found


def causes_in(folder: Path, truth: Truth) -> set[str]:
    """The causes in a finding folder; none in one without a model (an exporter's failure)."""
    model = folder / "model.onnx"
    return truth(model.read_bytes(), read_npz(folder / "inputs.npz")) if model.exists() else set()


def score(rows: list[Row], truth: Truth) -> Score:
    """Scores findings with one cause first, so that an unclear one is never the original."""
    found = Score(rows, {row.hash: causes_in(row.smallest, truth) for row in rows})
    for row in rows:
        causes = found.causes[row.hash]
        if not causes:
            found.unplanted.append(row.hash)
        elif len(causes) > 1:
            found.unclear.append(row.hash)
        else:
            (cause,) = causes
            if cause in found.first:
                found.duplicates[row.hash] = found.first[cause]
            found.first.setdefault(cause, row.hash)
        strangers = [m.name for m in row.members if not causes & causes_in(m, truth)]
        if strangers and causes:
            found.buckets[row.hash] = strangers
    return found


def variants(folder: Path) -> Iterator[tuple[str, TestCase]]:
    """The model of a bug as it is, and with other names beside an operator of its own at the newest
    opset that ONNX converts it to. Raises: one of CANNOT, NotReduced.
    """
    model, inputs = model_of(folder)
    yield "as it is", case_from_onnx(model, inputs)
    with suppress(Exception):  # the converter lacks operators
        model = version_converter.convert_version(model, NEWEST)
    add = onnx.parser.parse_graph("g (float[3] x) => (float[3] y) { y = Softplus (x) }")
    put_before("other_", model.graph)
    model.graph.MergeFrom(add)
    given = {f"other_{name}": array for name, array in inputs.items()}
    yield "varied", case_from_onnx(model, given | {"x": np.arange(3, dtype=np.float32)})


def known_causes(ledger: Ledger, system: str) -> list[str]:
    """Prints and returns a line for each variant of each bug that fails here. The line says whether
    the ledger recognises the bug, and as which one it does if the bug itself is left out.
    """
    bugs, lines = ledger.bugs(), []
    registry = BackendRegistry.discover()
    for name in (n for n, bug in bugs.items() if bug.system == system and not bug.duplicate_of):
        others = {n: bug for n, bug in bugs.items() if leader(bugs, n) != name}
        try:
            for variant, case in variants(ledger.place(name)):
                signatures, keys = recognising(case, bugs[name], registry)
                own, wrong = (bugs_of(b, signatures, keys, system)[:1] for b in (bugs, others))
                verdict = "right" if own == [name] else "WRONG" if own else "new"
                lines.append(
                    f"{verdict}{', else WRONG' if wrong else ''}: {name} {variant} {wrong}"
                )
                print(lines[-1], flush=True)
        except (*CANNOT, NotReduced) as error:
            print(f"does not fail here: {name}: {str(error)[:80]}", flush=True)
    return lines


def table(found: Score, known: Sequence[str]) -> str:
    """The score as Markdown. known: all planted causes."""
    titles = {row.hash: row.data["title"] for row in found.rows}
    number = len(found.rows)
    lines = [
        "| findings | reduced | causes | duplicates | unclear | buckets | unplanted or false |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        f"| {number} | {found.reduced} | {len(found.first)}{f' of {len(known)}' if known else ''} "
        f"| {len(found.duplicates)} | {len(found.unclear)} | {len(found.buckets)} "
        f"| {len(found.unplanted)} |",
        "",
    ]
    if missed := [cause for cause in known if cause not in found.first]:
        lines.append(f"missed: {', '.join(missed)}")
    told = lambda h: f"{h} {titles[h]} {sorted(found.causes[h])}"  # noqa: E731
    lines += [f"duplicate: {told(a)}\n       of: {told(b)}" for a, b in found.duplicates.items()]
    lines += [f"unclear: {told(h)}" for h in found.unclear]
    lines += [f"bucket: {told(h)} with {', '.join(ms)}" for h, ms in found.buckets.items()]
    lines += [f"unplanted: {told(h)}" for h in found.unplanted]
    return "\n".join(lines)


def markdown(rows: Iterable[Row]) -> str:
    return "\n".join(described(row) for row in rows)


def described(row: Row) -> str:
    """One finding as Markdown for a person."""
    data = json.loads((row.smallest / "finding.json").read_text())
    told = {k: v for k, v in row.data.items() if k != "title" and v}
    lines = [f"## {row.hash} {row.data['title']}", "", f"- {told}"]
    lines += [f"- {line}" for line in (data.get("localisation") or {}).get("evidence", ())]
    for outcome in data["outcomes"]:
        error = f"{outcome['error_type']} {outcome['signal']} {outcome['message']}".strip()
        where = f"{outcome['target']}: {outcome['kind']} at {outcome['stage']}"
        lines.append(f"- {where} {_cut(error, 1200)!r}" if error else f"- {where}")
    for party, mismatches in ((data.get("verdict") or {}).get("mismatches") or {}).items():
        lines += [f"- {party}: {_cut(json.dumps(m), 500)}" for m in mismatches]
    model = row.smallest / "model.onnx"
    text = onnx.printer.to_text(onnx.load(model)) if model.exists() else "no model"
    return "\n".join([*lines, "", "```", _cut(text, MAX_MODEL), "```", ""])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} [...] {text[-most // 2 :]}"


def fuzzed(arguments: Sequence[str], plugin: Path | None) -> Path:
    """Runs a campaign with these arguments of `nnfuzz fuzz`; returns its folder."""
    out = Path(tempfile.mkdtemp(prefix="check-triage-")) / "campaign"
    plugins = ["--plugin", str(plugin)] if plugin else []
    command = [sys.executable, "-m", "nnfuzz", "fuzz", *arguments, *plugins, "--out", str(out)]
    subprocess.run(command, check=False)
    return out


def main(
    campaign: Annotated[Path | None, typer.Argument(help="Folder of a finished one.")] = None,
    fuzz: Annotated[list[str] | None, typer.Argument(help="Or arguments of nnfuzz fuzz.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Plug-in with causes_of.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="Of bugs to recognise.")] = None,
    system: Annotated[str, typer.Option(help="Whose bugs.")] = "onnxruntime",
    most_duplicates: Annotated[float, typer.Option(help="Share of findings.")] = 0.2,
    most_buckets: Annotated[int, typer.Option(help="Findings.")] = 0,
    least_reduced: Annotated[float, typer.Option(help="Share of findings.")] = 0.75,
) -> None:
    if ledger:
        counts = Counter(line.partition(":")[0] for line in known_causes(Ledger(ledger), system))
        print(", ".join(f"{name} {n}" for name, n in counts.most_common()))
        return
    folder = campaign
    if campaign is None or str(campaign).startswith("-"):
        folder = fuzzed([*([str(campaign)] if campaign else []), *(fuzz or [])], truth)
        print(f"campaign: {folder}")
    rows = read_rows(folder)
    known: list[str] = []
    if truth:
        plugin = import_plugin(truth)
        known = getattr(plugin, "CAUSES", [f.cause for f in getattr(plugin, "FAULTS", ())])
        found = score(rows, plugin.causes_of)
    else:
        print(markdown(rows))
        return
    print(table(found, known))
    counts = Counter(cause for causes in found.causes.values() for cause in causes)
    print("findings by cause:", ", ".join(f"{cause} {n}" for cause, n in counts.most_common()))
    number = max(len(rows), 1)
    beyond = len(found.duplicates) > most_duplicates * number or len(found.buckets) > most_buckets
    raise typer.Exit(1 if beyond or found.reduced < least_reduced * number else 0)


if __name__ == "__main__":
    typer.run(main)
