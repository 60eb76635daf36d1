"""Campaigns that look for the bugs of entries, and whether a finding has an entry's cause.

A finding has the cause of an entry if it is of the same kind, has an operator of the entry that is
not PLAIN unless all are, and does not reproduce on the release that is without the bug, and all
that is true of its reduced model as well. Besides, the reduced model must hold the nodes of the
entry's, joined as they are there, or be a part of it itself, since an entry may hold more than its
bug needs. Where no release is without the bug, a part is enough only if it lacks nothing but a
PLAIN operator behind all others. Titles are not read. A campaign ends once it and its compilers
have had their CPU minutes. It reduces nothing: only findings that may have the cause are reduced,
afterwards and beside these minutes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import onnx
import psutil
from google.protobuf.message import DecodeError

from nnfuzz.backend.target import Target
from nnfuzz.base.untrusted import read_bytes
from scripts.recall.containment import Facts, Node, contains, facts
from scripts.recall.entries import Entry
from scripts.recall.environments import as_overlay, overlay

T = TypeVar("T")
KINDS = {
    "wrong": ("mismatch",),
    "error": ("exception", "unsupported"),
    "crash": ("crash",),
    "hang": ("timeout",),
}
"""The kinds of findings that a kind of entry can show as."""
SECONDS = 1800
"""The longest that a reduction or a replay may take, and a campaign for one of its CPU minutes."""
DEFAULT_MINUTES, AIMED_MINUTES = 60.0, 6.0
"""CPU minutes of a campaign against all operators, and of one that is aimed at an entry's."""
STEP = 2.0  # seconds between two looks at how much CPU time a campaign has had
TICKS = "cpu.json"
"""The file in a campaign's folder that holds the times of these looks and the CPU seconds."""
FIXED = 0
"""Exit code of `nnfuzz replay` for a finding that does not reproduce."""


class CampaignError(RuntimeError):
    """A campaign that could not begin or did not come to its end."""


@dataclass(frozen=True)
class Campaign:
    """A campaign against a release. operators: those it is aimed at; none for the defaults.
    minutes: of CPU. options: of the backend, as -b takes them behind its name.
    """

    system: str
    release: str
    operators: tuple[str, ...]
    minutes: float
    seed: int
    options: str = ""

    @property
    def name(self) -> str:
        aim = "-".join(self.operators)[:60] or "default"
        return f"{self.system}-{self.release}{self.options}-{aim}-{self.minutes:g}min-{self.seed}"


@dataclass(frozen=True)
class Met:
    """An entry's result under a campaign. finding: the first folder that has the same cause, or "".
    minutes: of CPU until then, or else of the whole campaign."""

    entry: str
    campaign: str
    findings: int
    finding: str
    minutes: float


def campaign_of(entry: Entry, aimed: bool, minutes: float, seed: int) -> Campaign:
    """The campaign that looks for an entry's bug, with its operators or with all."""
    operators = tuple(sorted(set(entry.operators))) if aimed else ()
    options = importer_options(entry) if aimed else ""
    return Campaign(entry.system, entry.broken, operators, minutes, seed, options)


def run(campaign: Campaign, out: Path) -> Path:
    """Runs a campaign unless its folder is complete, and returns the folder.

    Raises: CampaignError.
    """
    place = out / campaign.name
    if not (place / "summary.json").exists():
        command = ["fuzz", "-b", target(campaign.system, campaign.release) + campaign.options]
        command += ["--out", str(place)]
        command += ["--time", f"{SECONDS * campaign.minutes:.0f}s", "--seed", str(campaign.seed)]
        command += ["--exporter", "direct", "--set", "workers=1", "--set", "reduce=no", "-q"]
        if campaign.operators:
            command += ["--focus", ",".join(campaign.operators)]
        variables = environment(campaign.system, campaign.release)
        ticks = spent([sys.executable, "-m", "nnfuzz", *command], variables, campaign.minutes)
        if place.exists():
            (place / TICKS).write_text(json.dumps(ticks))
    if not (place / "summary.json").exists():
        raise CampaignError(f"{campaign.name} was not run: see what nnfuzz says above")
    return place


def spent(
    command: Sequence[str], variables: Mapping[str, str], minutes: float
) -> list[tuple[float, float]]:
    """Runs a command, and interrupts it once it has had so many minutes of CPU. Returns Unix times
    with the CPU seconds until then."""
    process = subprocess.Popen(
        command, env=variables, stdout=subprocess.DEVNULL, preexec_fn=_hearing_sigint
    )
    ticks = [(time.time(), 0.0)]
    while process.poll() is None:
        time.sleep(STEP)
        ticks.append((time.time(), max(cpu_seconds(process.pid), ticks[-1][1])))
        if ticks[-1][1] > 60 * minutes:
            process.send_signal(signal.SIGINT)
            process.wait()
    return ticks


def _hearing_sigint() -> None:
    """A process in the background inherits that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def cpu_seconds(root: int) -> float:
    """CPU seconds of a process and of all that descend from it, ended ones included."""
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        for process in (top := psutil.Process(root), *top.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])  # its own ones, and those of ended children
    return total


def met(entry: Entry, campaign: Campaign, out: Path) -> Met:
    """Whether a finding of a campaign that has run has the entry's cause, and when it came."""
    found = (out / campaign.name).glob("findings/*/model.onnx")
    times = {path.parent: path.stat().st_mtime for path in found}
    ticks = json.loads((out / campaign.name / TICKS).read_text())
    for folder in sorted(times, key=lambda folder: times[folder]):
        if same_cause(entry, folder, campaign.options):
            cpu = next((cpu for at, cpu in ticks if at >= times[folder]), ticks[-1][1])
            return Met(entry.name, campaign.name, len(times), folder.name, round(cpu / 60, 2))
    return Met(entry.name, campaign.name, len(times), "", round(ticks[-1][1] / 60, 2))


def curve(results: Iterable[Met]) -> str:
    """How many entries were met by how many minutes of CPU, in a line."""
    best: dict[str, list[float]] = {}
    for result in results:
        best.setdefault(result.entry, []).extend([result.minutes] if result.finding else [])
    met_at = sorted(min(minutes) for minutes in best.values() if minutes)
    steps = [f"{n} by {minutes:g}" for n, minutes in enumerate(met_at, 1)]
    return f"{len(met_at)} of {len(best)} met; CPU minutes: {', '.join(steps) or '-'}"


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
    command, own = [sys.executable, "-m", "nnfuzz", *arguments], environment(system, release)
    try:
        return subprocess.run(
            command, env=own, stdout=subprocess.DEVNULL, timeout=SECONDS
        ).returncode
    except subprocess.TimeoutExpired:
        return -1


def environment(system: str, release: str) -> dict[str, str]:
    """The variables of a process in which the system has the release."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    if place := overlay(system, release):
        variables["PYTHONPATH"] = str(place)
    return variables


def recorded(path: Path, kind: type[T]) -> list[T]:
    """The results in a file, one JSON object a line; none if there is no file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [kind(**json.loads(line)) for line in lines]


def record(path: Path, result: Any) -> None:
    """Appends a result, a dataclass, to the file."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(result)) + "\n")
