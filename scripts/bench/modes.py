"""Compares the findings of campaigns of equal CPU time in several modes.

    python -m scripts.bench.modes -b onnxruntime --cpu-minutes 10 --out modes
    python -m scripts.bench.modes -b openvino --modes plain,edges --out modes
    python -m scripts.bench.modes --out modes --tell           what they have found

Modes are sets of options of nnfuzz fuzz (MODES). Campaigns run one after the other, with one
worker; CPU seconds of all their processes are counted, so the load of the machine hardly matters.
After each, unreduced findings are reduced, which is not counted. Findings of different modes are
the same by the rule of --known: an equal hash, or enough keys. A reader decides which of them are
true: OUT/BACKEND.json has the folders of each.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import psutil
import typer

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.findings.folder import REDUCED
from nnfuzz.findings.keyed import known_by
from nnfuzz.triage.known import KnownFailures
from scripts.campaigns import FUZZ, summary

MODES = {
    "plain": "",
    "rewrites": "--set rewrites=0.5",
    "seeds": "--seed-models {seeds}",
    "edges": "--edges",
}
ENOUGH_MINUTES = 240  # of wall-clock time, for a campaign that is stuck
TICK_SECONDS = 1.0


@dataclass
class Group:
    """Findings with one cause by the rule of --known. modes: mode -> folders."""

    title: str
    pattern: str
    known: KnownFailures
    modes: dict[str, list[str]] = field(default_factory=dict)

    def takes(self, other: KnownFailures) -> bool:
        return bool(self.known.hashes & other.hashes) or any(map(self.known.has, other.keys))


def main(
    *,
    out: Annotated[Path, typer.Option(help="Folder of the campaigns: OUT/BACKEND-MODE.")],
    backend: Annotated[str, typer.Option("--backend", "-b")] = "onnxruntime",
    cpu_minutes: Annotated[float, typer.Option(help="Of each campaign.")] = 10.0,
    modes: Annotated[str, typer.Option(help="With commas between.")] = ",".join(MODES),
    seeds: Annotated[Path, typer.Option(help="Of scripts/make/seeds.py.")] = Path("seeds"),
    seed: int = 1501,
    options: Annotated[str, typer.Option(help="Of every campaign.")] = "--exporter direct",
    reduce_minutes: Annotated[float, typer.Option(help="Of reductions behind each.")] = 60.0,
    tell: Annotated[bool, typer.Option("--tell", help="Run nothing.")] = False,
) -> None:
    names = modes.split(",")
    if unknown := [name for name in names if name not in MODES]:
        raise typer.BadParameter(f"{unknown[0]} is no mode: {', '.join(MODES)}")
    if "seeds" in names and not (tell or seeds.is_dir()):
        raise typer.BadParameter(f"{seeds} is no folder; scripts/make/seeds.py makes one")
    base = backend.partition(",")[0]
    for name in () if tell else names:
        folder = out / f"{base}-{name}"
        more = f"{options} {MODES[name].format(seeds=seeds)}".split()
        spent = run(folder, ["-b", backend, "--seed", str(seed), *more], cpu_minutes * 60)
        reduce(folder, reduce_minutes * 60)
        print(f"{folder}: {spent:.0f} s of CPU", flush=True)
    folders = {name: out / f"{base}-{name}" for name in names}
    there = {name: folder for name, folder in folders.items() if (folder / "summary.json").exists()}
    groups = list(grouped(there))
    report(there, groups)
    told = [{"title": g.title, "pattern": g.pattern, "modes": g.modes} for g in groups]
    (out / f"{base}.json").write_text(json.dumps(told, indent=1))


def run(folder: Path, options: list[str], seconds: float) -> float:
    """Runs a campaign for some CPU seconds; returns the CPU seconds that it took."""
    limit = ["--time", f"{ENOUGH_MINUTES}m", "--set", "workers=1", "--quiet"]
    command = [*FUZZ, "--out", str(folder), *options, *limit]
    spent = 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as campaign:
        while campaign.poll() is None:
            time.sleep(TICK_SECONDS)
            spent = max(spent, cpu_seconds(campaign.pid))
            if spent >= seconds:
                campaign.send_signal(signal.SIGINT)
                campaign.wait()
    if campaign.returncode not in (0, 1, 130):
        raise SystemExit(f"{' '.join(command)}: exit code {campaign.returncode}")
    return spent


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and all its descendants, also those that have ended."""
    total = 0.0
    try:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return total
    for process in family:
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.Error:
            continue
    return total


def grouped(folders: dict[str, Path]) -> Iterator[Group]:
    """Groups of findings of all modes with one cause."""
    registry = BackendRegistry.discover()
    groups: list[Group] = []
    for mode, campaign in folders.items():
        for row in summary(campaign)["signatures"]:
            folder = campaign / row["folder"]
            known = KnownFailures.merged(known_by(f, registry) for f in (folder, folder / REDUCED))
            group = next((g for g in groups if g.takes(known)), None)
            if group is None:
                group = Group(row["title"], row["pattern"], KnownFailures())
                groups.append(group)
            group.known = KnownFailures.merged([group.known, known])
            group.modes.setdefault(mode, []).append(str(folder))
    yield from sorted(groups, key=lambda group: group.title)


def report(folders: dict[str, Path], groups: list[Group]) -> None:
    head = ("mode", "tests", "findings", "not reduced", "here alone", "not in plain")
    print("{:10} {:>6} {:>9} {:>12} {:>11} {:>13}".format(*head))
    for mode, campaign in folders.items():
        told = summary(campaign)
        alone = sum(set(group.modes) == {mode} for group in groups)
        beyond = sum(mode in group.modes and "plain" not in group.modes for group in groups)
        print(
            f"{mode:10} {told['tests']:6} {len(told['signatures']):9} "
            f"{told['unreduced']:12} {alone:11} {beyond:13}"
        )
    for group in groups:
        print(f"{'+'.join(group.modes)}: {group.title} [{group.pattern}]")


def reduce(folder: Path, seconds: float) -> None:
    """Reduces the findings that the campaign had no time for, for at most `seconds`."""
    command = [*FUZZ[:-1], "reduce", str(folder), "--workers", "1"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()


if __name__ == "__main__":
    typer.run(main)
