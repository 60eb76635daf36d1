"""Walks the releases of a compiler with `nnfuzz watch`, and compares its ledger with by-hand runs.

First every script of a ledger is run once in every release, each of which has an environment of its
own below --folder. Then each bug is forgotten back to the oldest release in which it fails, as
though it had been found there, and `nnfuzz watch` lives through all releases with turns of a few
tests. What its ledger says in the end (results, states, first and last bad release, the release
that is right again) has to follow from the runs by hand, for bugs that the watch has found itself
as well, and nothing may be announced twice. With --kills, the watch is killed (SIGKILL) so many
times at random moments; each time all of its ledger has to be readable, and no bug may be gone.

    python -m scripts.check.year onnxruntime --first 1.16.0
    python -m scripts.check.year openvino --first 2024.5.0 --every 2 --kills 20

Prints a table and every disagreement; exits with 1 if there is one. Interrupted, it goes on from
where it was. It needs the package index, a few hundred megabytes a release, and a minute for each;
environments are removed at the end (--keep leaves them).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from packaging.version import Version

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import ReleaseError
from nnfuzz.bugs.bug import Bug, BugError, BugState, ScriptResult, newer
from nnfuzz.bugs.environments import Interpreters
from nnfuzz.bugs.history import changes_of
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.bugs.scripts import run_script
from nnfuzz.bugs.turns import WatchState, read_state, write_state

LIFE = (2.0, 90.0)
"""Seconds of a watch until it is killed."""
ANSWERS = (ScriptResult.REPRODUCES, ScriptResult.RIGHT)
SETTINGS = """\
[watch]
ledger = "bugs"
publish = "site"
work = "work"
announce = "cat >> news.jsonl; echo >> news.jsonl"
tests = {tests}

[watch.systems.{system}]
first = "{first}"

[fuzz]
nodes = 5
probe = "0"
producers = 1
workers = 1
"""


@dataclass
class ByHand:
    """Results of scripts in releases, kept in a file so that none is run a second time."""

    file: Path
    interpreters: Interpreters
    results: dict[str, dict[str, ScriptResult]] = field(default_factory=dict)

    @classmethod
    def opened(cls, file: Path, interpreters: Interpreters) -> ByHand:
        """With the results of an earlier run."""
        if not file.is_file():
            return cls(file, interpreters)
        found = json.loads(file.read_text()).items()
        results = {n: {r: ScriptResult(v) for r, v in of.items()} for n, of in found}
        return cls(file, interpreters, results)

    def result(self, ledger: Ledger, name: str, release: str) -> ScriptResult:
        """What the script of a bug shows in a release. Raises: ReleaseError."""
        own = self.results.setdefault(name, {})
        if release not in own:
            there = self.interpreters.of_release(release)(ledger.bug(name))
            own[release] = run_script(ledger.script(name), there.python).result
        return own[release]

    def keep(self) -> None:
        self.file.write_text(json.dumps(self.results, indent=1))


def forgotten(bug: Bug, results: Mapping[str, ScriptResult]) -> Bug | None:
    """The bug as though it had been found in the oldest release that has it; None if none has."""
    bad = [release for release, result in results.items() if result is ScriptResult.REPRODUCES]
    if not bad:
        return None
    blank = replace(
        bug,
        state=BugState.NEW,
        first_bad_release="",
        last_bad_release="",
        right_release="",
        duplicate_of="",
        notes=(),
        releases={},
    )
    return blank.failing_in(min(bad, key=Version))


def disagreements(bug: Bug, results: Mapping[str, ScriptResult]) -> Iterator[str]:
    """Lines for what bug.toml says otherwise than the results of its script, by release.

    Where the script cannot show the bug, such as in a release that refuses its opset, a campaign
    may have observed it all the same.
    """
    results = {r: _observed(bug.releases.get(r), result) for r, result in results.items()}
    for release, result in results.items():
        recorded = bug.releases.get(release)
        if recorded is not result and result is not ScriptResult.CANNOT_RUN:
            yield f"{release}: {recorded or 'nothing'}, by hand {result}"
    bad, right = (sorted((r for r in results if results[r] is a), key=Version) for a in ANSWERS)
    if not bad:
        yield "by hand, it fails in no release"
        return
    behind = next((release for release in right if newer(release, bad[-1])), "")
    for what, here, by_hand in (
        ("first bad release", bug.first_bad_release, bad[0]),
        ("last bad release", bug.last_bad_release, bad[-1]),
        ("right release", bug.right_release, behind),
        ("fixed", bug.state is BugState.FIXED, bool(behind)),
    ):
        if here != by_hand:
            yield f"{what}: {here or 'none'}, by hand {by_hand or 'none'}"


def _observed(recorded: ScriptResult | None, by_hand: ScriptResult) -> ScriptResult:
    by_campaign = recorded is ScriptResult.REPRODUCES and by_hand is ScriptResult.OTHERWISE
    return ScriptResult.REPRODUCES if by_campaign else by_hand


def walked(releases: list[str], first: str, every: int) -> list[str]:
    """Each N-th of the releases from the first one on, and the newest."""
    behind = [release for release in releases if not newer(first, release)]
    return sorted({*behind[::every], behind[-1]}, key=Version)


def run_by_hand(hand: ByHand, ledger: Ledger, names: list[str], releases: list[str]) -> list[str]:
    """Runs all scripts in all releases; returns the releases that can be installed."""
    usable = []
    for release in releases:
        try:
            found = Counter(hand.result(ledger, name, release) for name in names)
        except ReleaseError as error:
            print(f"{release} is left out: {error}", flush=True)
            continue
        hand.keep()
        usable.append(release)
        print(release, ", ".join(f"{k} {n}" for k, n in found.items()), flush=True)
    return usable


def make_ledger(source: Ledger, made: Ledger, names: list[str], hand: ByHand) -> None:
    """Copies the bugs that some release has, without their histories."""
    for name in names:
        if (bug := forgotten(source.bug(name), hand.results[name])) is not None:
            made.add(name, bug, partial(shutil.copytree, source.place(name), dirs_exist_ok=True))


def watch(
    folder: Path, system: str, usable: list[str], behind: list[str], tests: int, kills: int
) -> None:
    """Runs the watch for one turn a release; those that are not usable count as checked.

    kills: how often it is killed and begun again. Raises: BugError for a ledger that is damaged.
    """
    ledger, chance = Ledger(folder / "bugs"), random.Random(0)
    (folder / "nnfuzz.toml").write_text(
        SETTINGS.format(tests=tests, system=system, first=usable[0])
    )
    passed = tuple(release for release in behind if release not in usable)
    if not read_state(ledger).checked:
        write_state(ledger, WatchState(checked={system: passed}))
    while left := set(usable) - set(read_state(ledger).checked[system]):
        command = [sys.executable, "-m", "nnfuzz", "watch", "--quiet", "--turns", str(len(left))]
        before = set(ledger.bugs())
        with subprocess.Popen(command, cwd=folder, start_new_session=True) as process:
            try:
                process.wait(chance.uniform(*LIFE) if kills else None)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                kills -= 1
        if gone := before - set(ledger.bugs()):
            raise BugError(f"after a kill, {', '.join(sorted(gone))} is gone")
        print(f"ended with {process.returncode}, {len(ledger.bugs())} bugs are whole", flush=True)
        if process.returncode not in (0, 1, -signal.SIGKILL):
            sys.exit(process.returncode)


def twice(folder: Path) -> list[str]:
    """Lines that were announced more than once."""
    file = folder / "news.jsonl"
    lines = file.read_text().splitlines() if file.is_file() else []
    events = (event for line in filter(None, lines) for event in json.loads(line)["events"])
    told = Counter(f"{event['bug']}: {event['text']}" for event in events)
    return [f"announced {n} times: {line}" for line, n in told.items() if n > 1]


def compared(ledger: Ledger, hand: ByHand, usable: list[str], before: set[str]) -> list[str]:
    """Prints the table; returns the disagreements."""
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    for name, bug in ledger.bugs().items():
        releases = {*bug.releases, *(usable if name in before else ())}
        results = {r: hand.result(ledger, name, r) for r in sorted(releases, key=Version)}
        wrong += (f"{name}: {line}" for line in disagreements(bug, results))
        counts["bugs"] += 1
        counts["of them found by the watch"] += name not in before
        counts["results"] += len(results)
        counts["transitions"] += len(changes_of(bug))
        counts[f"state {bug.state}"] += 1
    hand.keep()
    signatures = Counter(s for bug in ledger.bugs().values() for s in bug.signatures)
    wrong += (f"signature {s} is in {n} bugs" for s, n in signatures.items() if n > 1)
    for what, count in {"releases": len(usable), **counts}.items():
        print(f"{what:28}{count:6}")
    return wrong


def main(
    system: Annotated[str, typer.Argument(help="Backend whose releases are walked.")],
    first: Annotated[str, typer.Option(help="The oldest release.")],
    every: Annotated[int, typer.Option(help="Walks each N-th release.")] = 1,
    tests: Annotated[int, typer.Option(help="Of the campaign of each turn.")] = 3,
    folder: Annotated[Path, typer.Option(help="Where everything lies.")] = Path("/tmp/year"),
    ledger: Annotated[Path, typer.Option(help="Whose bugs are walked.")] = Path("docs/bugs"),
    kills: Annotated[int, typer.Option(help="Kills the watch so many times.")] = 0,
    most: Annotated[int, typer.Option(help="Walks so many bugs, evenly chosen; 0 for all.")] = 0,
    keep: Annotated[bool, typer.Option(help="Leaves the environments.")] = False,
) -> None:
    place = (folder / system).resolve()
    place.mkdir(parents=True, exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(place / "cache")
    os.environ["OMP_NUM_THREADS"] = "1"
    interpreters = Interpreters(BackendRegistry.discover(), print)
    hand = ByHand.opened(place / "by_hand.json", interpreters)
    source, made = Ledger.opened(ledger), Ledger(place / "bugs")
    bugs = source.chosen([system]).items()
    names = [n for n, bug in bugs if bug.system == system and not bug.package]
    names = names[:: -(-len(names) // most)] if most else names
    listed = interpreters.releases(source.bug(names[0]))
    behind = [release for release in listed if not newer(first, release)]
    usable = run_by_hand(hand, source, names, walked(listed, first, every))
    if not made.folder.is_dir():
        make_ledger(source, made, names, hand)
    watch(place, system, usable, behind, tests, kills)
    wrong = [*compared(made, hand, usable, set(names)), *twice(place)]
    print("\n".join([f"disagreements: {len(wrong)}", *wrong]))
    if not keep:
        shutil.rmtree(place / "cache")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
