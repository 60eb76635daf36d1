"""Measures what hangs cost, with a backend that never returns from one model in sixty.

python -m scripts.torment.hangs --seconds 35 --turns 1
python -m scripts.torment.hangs --seconds 300 --backend sick --least 0.85

It runs in turns with a healthy one under the same settings (sleepers.py). With --together both run
at the same time, each on half of the cores, which they swap in the next turn, so that other work of
the machine slows down both. `sick` hangs, dies, or loses the outputs of one model in twenty. Prints
the tests per minute of each, their ratio, how many hangs the summary reports, and the indexes
without a record. Exits with 1 below --least, if a hang is missing, if a kind of trouble is no
finding or was confirmed more than once, or if more indexes have no record than can have been
running when the time was over.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.store.store import FILE, Store
from scripts.campaigns import run_fuzz, set_options, summary
from scripts.torment.sleepers import DIE, HANG, LOSE

PLUGIN = Path(__file__).with_name("sleepers.py")
KINDS = {HANG: OutcomeKind.TIMEOUT, DIE: OutcomeKind.CRASH, LOSE: OutcomeKind.EXCEPTION}
UNDER_WAY = 32  # tests that may be so when the time is over


def main() -> int:
    options = _options()
    folder = Path(options.out or tempfile.mkdtemp(prefix="nnfuzz-hang-"))
    rates: dict[str, list[float]] = {"awake": [], options.backend: []}
    planted = told = 0
    trouble: list[str] = []
    for turn in range(options.turns):
        log = folder / f"hangs-{turn}"
        for name, ended in _turn(options, folder, turn, log).items():
            rates[name].append(60 * ended["tests"] / ended["seconds"])
            print(f"{name}: {rates[name][-1]:.0f} tests/min, hangs {ended['hangs']}", flush=True)
        met = {line for line in log.read_text().split()} if log.exists() else set()
        planted += sum(line.endswith(HANG) for line in met)
        trouble += missing(folder / f"{options.backend}-{turn}", met)
        told += sum(ended["hangs"].values()) + sum(ended["hangs_of_survey"].values())
    ratio = sum(rates[options.backend]) / sum(rates["awake"])
    print(f"with trouble {ratio:.0%} of the tests per minute; {told} of {planted} hangs are told")
    print("\n".join(trouble) or "every test is recorded, every kind of trouble confirmed once")
    under_way = options.turns  # one model per campaign may have begun when the time was over
    return 0 if ratio >= options.least and told >= planted - under_way and not trouble else 1


def missing(campaign: Path, met: set[str]) -> list[str]:
    """Records that a campaign lacks. met: "MODEL:KIND" of all trouble."""
    with Store.open(campaign, write=False) as store:
        done, rows = {*store.tests.done()}, store.signatures.rows()
        hangs = {row.test.index for row in store.hangs.rows()}
        seen = Counter(row.kind for row in rows)
    wanted = {KINDS[line.partition(":")[2]] for line in met}
    gaps = sorted({*range(max(done, default=-1) + 1)} - done - hangs)
    told = [f"no finding of {kind}" for kind in sorted(wanted) if not seen[kind]]
    hung = {row.signature for row in rows if row.kind == OutcomeKind.TIMEOUT}
    told += [f"{s} was confirmed {n} times" for s, n in repeated(campaign) if s in hung and n > 1]
    return told + ([f"tests without a record: {gaps}"] if len(gaps) > UNDER_WAY else [])


def repeated(campaign: Path) -> list[tuple[str, int]]:
    """Signatures, and the number of their tests that were repeated in fresh processes."""
    query = "SELECT signature, count(*) FROM repeats WHERE tried > 0 GROUP BY signature"
    with closing(sqlite3.connect(campaign / FILE)) as database:
        return database.execute(query).fetchall()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=35.0, help="of each campaign")
    parser.add_argument("--backend", choices=("sleepy", "sick"), default="sleepy")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--together", action="store_true", help="both at the same time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=float, default=0.9, help="ratio that is good enough")
    parser.add_argument("--out", help="folder of the campaigns; it must not exist yet")
    parser.add_argument("rest", nargs="*", help="further options of nnfuzz fuzz, behind --")
    return parser.parse_args()


def _turn(
    options: argparse.Namespace, folder: Path, turn: int, log: Path
) -> dict[str, dict[str, Any]]:
    """Runs both campaigns of a turn; returns their summaries by backend."""
    names = ("awake", options.backend)
    cores = sorted(os.sched_getaffinity(0))
    shares = [cores, cores]
    if options.together:
        shares = [cores[::2], cores[1::2]] if turn % 2 else [cores[1::2], cores[::2]]
    with ThreadPoolExecutor(2 if options.together else 1) as pool:
        run = [
            pool.submit(_campaign, options, name, folder / f"{name}-{turn}", log, share)
            for name, share in zip(names, shares, strict=True)
        ]
        return {name: future.result() for name, future in zip(names, run, strict=True)}


def _campaign(
    options: argparse.Namespace, name: str, out: Path, log: Path, cores: list[int]
) -> dict[str, Any]:
    """Returns the summary of a campaign on some cores. Raises: CalledProcessError if it fails."""
    backend = name if name == "awake" else f"{name},log={log}"
    given = ("-b", backend, "--quiet", "--plugin", PLUGIN, "--time", f"{options.seconds}s")
    given += ("--seed", options.seed, "--out", out, *set_options(probe=0, reduce="no"))
    given += tuple(options.rest)
    os.sched_setaffinity(0, cores)  # of this thread; the campaign inherits it
    run_fuzz(*given)
    return summary(out)


if __name__ == "__main__":
    sys.exit(main())
