"""Campaigns that look for the bugs of entries, and whether a finding has an entry's cause.

A finding has the cause of an entry if it is of the same kind, has an operator of the entry that is
not PLAIN unless all are, and does not reproduce on the release that is without the bug, and all
that is true of its reduced model as well. Besides, the reduced model must hold the nodes of the
entry's, joined as they are there, or be a part of it itself, since an entry may hold more than its
bug needs. Where no release is without the bug, a part is enough only if it lacks nothing but a
PLAIN operator behind all others. Titles are not read. Campaigns reduce nothing themselves: only
findings that may have the cause are reduced, which takes most of the time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from nnfuzz.backend.target import Target
from nnfuzz.base.untrusted import read_bytes
from scripts.recall.containment import Facts, Node, contains, facts
from scripts.recall.entries import Entry
from scripts.recall.environments import as_overlay, overlay

KINDS = {
    "wrong": ("mismatch",),
    "error": ("exception", "unsupported"),
    "crash": ("crash",),
    "hang": ("timeout",),
}
"""The kinds of findings that a kind of entry can show as."""
SECONDS = 1800
FIXED = 0
"""Exit code of `nnfuzz replay` for a finding that does not reproduce."""


class CampaignError(RuntimeError):
    """A campaign that could not begin or did not come to its end."""


@dataclass(frozen=True)
class Campaign:
    """A campaign against a release. operators: those it is aimed at; none for the defaults.
    options: of the backend, as -b takes them behind its name.
    """

    system: str
    release: str
    operators: tuple[str, ...]
    tests: int
    seed: int
    options: str = ""

    @property
    def name(self) -> str:
        aim = "-".join(self.operators)[:60] or "default"
        return f"{self.system}-{self.release}{self.options}-{aim}-{self.tests}-{self.seed}"


@dataclass(frozen=True)
class Met:
    """An entry's result under a campaign. finding: the folder that has the same cause, or ""."""

    entry: str
    campaign: str
    findings: int
    finding: str


def campaign_of(entry: Entry, aimed: bool, tests: int, seed: int) -> Campaign:
    """The campaign that looks for an entry's bug, with its operators or with all."""
    operators = tuple(sorted(set(entry.operators))) if aimed else ()
    options = importer_options(entry) if aimed else ""
    return Campaign(entry.system, entry.broken, operators, tests, seed, options)


def run(campaign: Campaign, out: Path) -> Path:
    """Runs a campaign unless its folder is complete, and returns the folder.

    Raises: CampaignError.
    """
    place = out / campaign.name
    if not (place / "summary.json").exists():
        command = ["fuzz", "-b", target(campaign.system, campaign.release) + campaign.options]
        command += ["--out", str(place)]
        command += ["--tests", str(campaign.tests), "--seed", str(campaign.seed), "-q"]
        command += ["--exporter", "direct", "--set", "workers=1", "--set", "reduce=no"]
        if campaign.operators:
            command += ["--focus", ",".join(campaign.operators)]
        if (place / "campaign.sqlite").exists():
            command = ["fuzz", "--out", str(place), "--resume", "-q"]
        nnfuzz_command(command, campaign.system, campaign.release)
    if not (place / "summary.json").exists():
        raise CampaignError(f"{campaign.name} was not run: see what nnfuzz says above")
    return place


def met(entry: Entry, campaign: Campaign, out: Path) -> Met:
    """Whether a finding of a campaign that has run has the entry's cause."""
    folders = [
        path.parent for path in sorted((out / campaign.name).glob("findings/*/finding.json"))
    ]
    same = next((f.name for f in folders if same_cause(entry, f, campaign.options)), "")
    return Met(entry.name, campaign.name, len(folders), same)


def same_cause(entry: Entry, finding: Path, options: str = "") -> bool:
    """Whether a finding has the entry's cause; False for one that cannot be read. options: of the
    backend in its campaign."""
    whole = _model(finding)
    if whole is None or not _may_have(entry, finding, whole):
        return False
    if not _same_nodes(entry, facts(whole)) and not _gone(entry, finding, options):
        return False  # One that has the nodes may hold another bug as well.
    if not (finding / "reduced").exists():
        nnfuzz_command(["reduce", str(finding)], entry.system, entry.broken)
    reduced = _model(finding) if (finding / "reduced").exists() else None
    if reduced is None or not _may_have(entry, finding, reduced):
        return False
    return _same_nodes(entry, facts(reduced)) and _gone(entry, finding, options)


def _same_nodes(entry: Entry, reduced: Facts) -> bool:
    """Whether a reduced model holds the entry's nodes, or those in front of a last one that is
    PLAIN; or, where a release without the bug has the last word, is a part of them."""
    own = facts(entry.model)
    held = any(contains(reduced, pattern, JOINED) for pattern in (own, *_cores(own)))
    return held or bool(entry.fixed and contains(own, reduced, JOINED))


def _cores(own: Facts) -> Iterator[Facts]:
    """The nodes without a PLAIN one that nobody reads, if the others are joined to each other."""
    for last in own.nodes:
        rest = [node for node in own.nodes if node is not last]
        read = {name for node in rest for name in node.inputs}
        unread = last.operator in PLAIN and not read.intersection(last.outputs)
        if unread and len(rest) > 1 and _connected(rest):
            yield replace(own, nodes=rest)


def _connected(nodes: Sequence[Node]) -> bool:
    """Whether results of the nodes join all of them."""
    made = {name for node in nodes for name in node.outputs}
    groups: list[set[str]] = []
    for node in nodes:
        names = {*node.outputs, *made.intersection(node.inputs)}
        near = [group for group in groups if group & names]
        groups = [group for group in groups if group not in near]
        groups.append(names.union(*near))
    return len(groups) == 1


def _model(finding: Path) -> onnx.ModelProto | None:
    """The reduced model of a finding, or the one that it came from; None if there is none."""
    reduced = finding / "reduced" / "model.onnx"
    with suppress(OSError, ValueError, DecodeError):
        path = reduced if reduced.exists() else finding / "model.onnx"
        return onnx.load_model_from_string(read_bytes(path))
    return None


def _may_have(entry: Entry, finding: Path, model: onnx.ModelProto) -> bool:
    """Whether the kind of a finding and an operator of its model are those of the entry."""
    own = set(entry.operators)
    with suppress(OSError, ValueError, KeyError):
        kind = json.loads(read_bytes(finding / "finding.json"))["kind"]
        present = {node.op_type for node in model.graph.node}
        return kind in KINDS[entry.kind] and bool(present & (own - PLAIN or own))
    return False


def _gone(entry: Entry, finding: Path, options: str) -> bool:
    """Whether the release without the bug does well; True where none is known."""
    if not entry.fixed:
        return True
    return replayed(finding, entry.system, entry.fixed, options) == FIXED


JOINED = ("joined",)
PLAIN = frozenset({"Add", "Relu", "Neg", "Mul", "Identity", "Cast", "Constant"})
"""Operators that stand in entries around the one that is wrong."""


def replayed(finding: Path, system: str, release: str, options: str = "") -> int:
    """The exit code of `nnfuzz replay` on a release."""
    command = ["replay", str(finding), "-b", target(system, release) + options]
    return nnfuzz_command(command, system, release)


def target(system: str, release: str) -> str:
    """What -b takes: optimisers and IREE lie in front of all else, and so have no release there."""
    return system if as_overlay(system) else f"{system}@{release}"


def target_of(entry: Entry) -> Target:
    """The release that has the entry's bug, with what the entry says of its importer."""
    return Target(entry.system + importer_options(entry), release=entry.broken)


def importer_options(entry: Entry) -> str:
    """What -b takes behind the name, for an entry whose weights are inputs of the module."""
    return ",weights=inputs" if entry.keep_params else ""


def nnfuzz_command(arguments: list[str], system: str, release: str) -> int:
    """Runs nnfuzz in a process of its own, in which the system has the release."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    if place := overlay(system, release):
        settings["PYTHONPATH"] = str(place)
    command = [sys.executable, "-m", "nnfuzz", *arguments]
    try:
        return subprocess.run(
            command, env=settings, stdout=subprocess.DEVNULL, timeout=SECONDS
        ).returncode
    except subprocess.TimeoutExpired:
        return -1


def recorded(path: Path) -> Iterator[Met]:
    """The results in a file, one JSON object a line."""
    if path.exists():
        yield from (Met(**json.loads(line)) for line in path.read_text().splitlines())


def record(path: Path, result: Met) -> None:
    """Appends a result to the file."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(result)) + "\n")
