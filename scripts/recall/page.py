"""The page of recall: the table of entries with their recorded results, and the misses by class."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from nnfuzz.base.files import write_atomically
from scripts.recall import reach as reaching
from scripts.recall.campaigns import Met, recorded, target_of
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
an Add or the like behind the others. Default campaigns have 1,000 tests, aimed ones 300 (`--focus
OPERATORS`), all of seed 1. A dash means that nothing was run.
"""


@dataclass(frozen=True)
class ReachLine:
    """What is recorded of an entry's reach. judged: as `nnfuzz check` answers, "" if it finds
    nothing wrong, "-" if it was not asked."""

    entry: str
    reach: str
    why: str
    judged: str


def reach_of(entry: Entry, judge: bool) -> ReachLine:
    """Measures the reach of an entry; judge: whether its release is run, too."""
    reach = reaching.reached(entry)
    asked = judge and entry.system in ("onnxruntime", "openvino", "tvm")
    said = reaching.judged(entry, target_of(entry)) if asked else "-"
    return ReachLine(entry.name, reach.reach.value, reach.why, said)


def reaches(path: Path) -> Iterator[ReachLine]:
    """The lines of a file."""
    if path.exists():
        yield from (ReachLine(**json.loads(line)) for line in path.read_text().splitlines())


def append(path: Path, line: ReachLine) -> None:
    """Writes a line to a file, in place of an earlier one of its entry."""
    lines = [old for old in reaches(path) if old.entry != line.entry]
    text = "".join(json.dumps(asdict(own)) + "\n" for own in (*lines, line))
    write_atomically(path, text.encode())


def text() -> str:
    """The text of the page."""
    return "\n".join([HEAD, *_counts(), "", *_before(), "", *_classes(), "", *_table(), ""])


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


def _before() -> list[str]:
    """What campaigns of an earlier nnfuzz met of the bugs for which both have run."""
    lines = []
    for name in ("aimed", "default"):
        old, new = _met(f"{name}_before"), _met(name)
        both = sorted(old.keys() & new.keys())
        if both:
            counts = [sum(found[entry] for entry in both) for found in (old, new)]
            lines.append(f"- {name}: {counts[0]} of {len(both)} before, {counts[1]} now.")
    if lines:
        lines = [
            "Before arrangements, and judged without the nodes (bugs that were tried twice):",
            "",
            *lines,
        ]
    return lines


def _classes() -> list[str]:
    """The classes of models by how many bugs wait for them."""
    reach, aimed, default = _reach(), _met("aimed"), _met("default")
    lines = ["| class | bugs | beyond the vocabulary | aimed and not met | by default not met |"]
    lines.append("| --- | --- | --- | --- | --- |")
    groups = Counter(entry.group for entry in entries())
    for group, count in groups.most_common():
        names = [e.name for e in entries() if e.group == group]
        beyond = sum(reach[n].reach in ("no spec", "not read") for n in names if n in reach)
        missed = [sum(found.get(n) is False for n in names) for found in (aimed, default)]
        lines.append(f"| {group} | {count} | {beyond} | {missed[0]} | {missed[1]} |")
    return lines


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
    return {line.entry: line for line in reaches(FOLDER / "reach.jsonl")}


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
    results: Iterable[Met] = recorded(FOLDER / f"{name}.jsonl")
    for result in results:
        found[result.entry] = found.get(result.entry, False) or bool(result.finding)
    return found


def _share(answers: Iterable[bool | None]) -> str:
    known = [answer for answer in answers if answer is not None]
    return f"{sum(known)} of {len(known)}" if known else "-"


def _yes(answer: bool | str | None) -> str:
    return answer if isinstance(answer, str) else {True: "yes", False: "no", None: "-"}[answer]
