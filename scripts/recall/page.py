"""The page of recall: the table of entries with their recorded results, and the misses by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from scripts.recall import reach as reaching
from scripts.recall.campaigns import Met, curve, recorded, target_of
from scripts.recall.entries import FOLDER, Entry, entries

HEAD = """\
# Recall

Bugs that other people filed from 2024 to 2026. A small model of ours reproduces each of them on a
release from the package index (`scripts/recall/bugs/`, a file each). This page is made of
what these commands have recorded there:

    python -m scripts.recall reproduce     # every entry on the release that has the bug
    python -m scripts.recall reach         # could its model be made, would the oracle see the bug?
    python -m scripts.recall ingredients   # how many models have what an entry's model is made of?
    python -m scripts.recall campaigns     # aimed at an entry's operators; --default: at nothing

**Reach** says how much of an entry's model the vocabulary of generation has: *whole*; *edges* if
only `edges` draws such inputs; *no spec* if an operator in this use has none; *not read* if the
import does not take the model. **Judged** says whether nnfuzz calls the release wrong when it is
given the model and the inputs; *refused* is a release that says in its own words that it does not
implement the model, which is no bug for nnfuzz. A campaign has **met** a bug if it has a finding of
the same kind, with an operator of the entry, that does not reproduce on the release without the
bug, and if the same is true of its reduced model, which must also hold the entry's nodes, joined as
they are there, or be a part of them; where no release is without the bug, it must hold them all but
an Add or the like behind the others. Campaigns end after some minutes of CPU, those of nnfuzz and
of the compiler: 60 by default, 6 if aimed (`--focus OPERATORS`), unless a record has another number
in its name. A dash means that nothing was run. While tests were counted, until 2026-11-29, 29 of 39
bugs were met by 300 aimed tests, 1 of 10 by 1,000 default ones.
"""


@dataclass(frozen=True)
class ReachLine:
    """What is recorded of an entry's reach. judged: as `nnfuzz check` answers, "" if it finds
    nothing wrong, "-" if it was not asked."""

    entry: str
    reach: str
    why: str
    judged: str


def reach_of(entry: Entry) -> ReachLine:
    """Measures the reach of an entry."""
    reach = reaching.reached(entry)
    asked = entry.system in ("onnxruntime", "openvino", "tvm")
    said = reaching.judged(entry, target_of(entry)) if asked else "-"
    return ReachLine(entry.name, reach.reach.value, reach.why, said)


def text() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *_counts(), "", *_curves(), "", *_table(), ""])


def _counts() -> list[str]:
    every, reach = entries(), _reach()
    lines = ["| system | bugs | whole | edges | no spec | not read | judged | aimed | default |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    systems = sorted({entry.system for entry in every})
    for system in (*systems, "all"):
        group = [e for e in every if system in (e.system, "all")]
        kinds = Counter(reach[e.name].reach for e in group if e.name in reach)
        cells = [kinds[kind.value] for kind in (reaching.Reach.WHOLE, reaching.Reach.EDGES)]
        cells += [kinds[kind.value] for kind in (reaching.Reach.OPAQUE, reaching.Reach.UNREAD)]
        verdicts = [_verdict(e, reach) for e in group]
        refused = verdicts.count(REFUSED)
        shares = [_share(v if isinstance(v, bool) else None for v in verdicts)]
        shares[0] += f", {refused} refused" if refused else ""
        shares += [_share(_met(name).get(e.name) for e in group) for name in ("aimed", "default")]
        lines.append(
            f"| {system} | {len(group)} | {' | '.join(map(str, cells))} | {' | '.join(shares)} |"
        )
    return lines


def _curves() -> list[str]:
    """How many bugs were met by how many minutes of CPU, aimed and by default."""
    found = {name: [*recorded(FOLDER / f"{name}.jsonl", Met)] for name in ("aimed", "default")}
    return [f"- {name}: {curve(results)}" for name, results in found.items() if results]


def _table() -> list[str]:
    reach, aimed, default = _reach(), _met("aimed"), _met("default")
    lines = ["| bug | kind | in | without it | class | reach | judged | aimed | default |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for e in entries():
        own = reach.get(e.name)
        told = [_yes(_verdict(e, reach)), _yes(aimed.get(e.name)), _yes(default.get(e.name))]
        shown = f"{own.reach} ({own.why[:60]})" if own and own.why else own.reach if own else "-"
        lines.append(
            f"| [{e.name}]({e.address}): {e.title} | {e.kind} | {e.broken} | {e.fixed or '-'} | "
            f"{e.group} | {shown.replace('|', '/')} | {' | '.join(told)} |"
        )
    return lines


def _reach() -> dict[str, ReachLine]:
    return {line.entry: line for line in recorded(FOLDER / "reach.jsonl", ReachLine)}


REFUSED = "refused"


def _verdict(entry: Entry, reach: dict[str, ReachLine]) -> bool | str | None:
    """Whether nnfuzz calls the release wrong; REFUSED if that does not implement the model, None if
    it was not asked."""
    line = reach.get(entry.name)
    if line is None or line.judged == "-":
        return None
    if line.judged.startswith(reaching.REFUSED):
        return REFUSED
    return bool(line.judged) and not line.judged.startswith("not checked")


def _met(name: str) -> dict[str, bool]:
    """By entry, whether one of the campaigns that are recorded has met it."""
    found: dict[str, bool] = {}
    for result in recorded(FOLDER / f"{name}.jsonl", Met):
        found[result.entry] = found.get(result.entry, False) or bool(result.finding)
    return found


def _share(answers: Iterable[bool | None]) -> str:
    known = [answer for answer in answers if answer is not None]
    return f"{sum(known)} of {len(known)}" if known else "-"


def _yes(answer: bool | str | None) -> str:
    return answer if isinstance(answer, str) else {True: "yes", False: "no", None: "-"}[answer]
