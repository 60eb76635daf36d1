"""What hangs cost: a backend that never returns from one model in sixty, beside one that does.

python scripts/bench_hang.py --seconds 35 --turns 1

Both run by turns under the same settings (scripts/sleepers.py); with --together at the same time,
each on half of the cores and on the other half the next turn, so that other work of the machine
slows down both. Prints the tests per minute of each, their ratio, and how many of the hangs the
summary tells. Exit code 1 below --least, or if a hang is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PLUGIN = Path(__file__).with_name("sleepers.py")


def main() -> int:
    options = _options()
    folder = Path(options.out or tempfile.mkdtemp(prefix="nnfuzz-hang-"))
    rates: dict[str, list[float]] = {"awake": [], "sleepy": []}
    planted = told = 0
    for turn in range(options.turns):
        log = folder / f"hangs-{turn}"
        for name, summary in _turn(options, folder, turn, log).items():
            rates[name].append(60 * summary["tests"] / summary["seconds"])
            print(f"{name}: {rates[name][-1]:.0f} tests/min, hangs {summary['hangs']}", flush=True)
        planted += len(set(log.read_text().split())) if log.exists() else 0
        told += sum(summary["hangs"].values()) + sum(summary["hangs_of_survey"].values())
    ratio = sum(rates["sleepy"]) / sum(rates["awake"])
    print(f"with hangs {ratio:.0%} of the tests per minute; {told} of {planted} hangs are told")
    under_way = options.turns  # one model per campaign may have begun when the time was over
    return 0 if ratio >= options.least and told >= planted - under_way else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=35.0, help="of each campaign")
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
    """The summary of each campaign."""
    names = ("awake", "sleepy")
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
    """The summary of one on some cores.

    Raises: CalledProcessError if the campaign fails; findings are no failure.
    """
    backend = f"{name},log={log}" if name == "sleepy" else name
    fuzz = [sys.executable, "-m", "nnfuzz.cli.main", "fuzz", "-b", backend, "--quiet"]
    fuzz += ["--plugin", str(PLUGIN), "--time", f"{options.seconds}s", "--seed", str(options.seed)]
    fuzz += ["--probe", "0", "--no-reduce", "--out", str(out), *options.rest]
    fuzz = ["taskset", "--cpu-list", ",".join(map(str, cores)), *fuzz]
    done = subprocess.run(fuzz, stdout=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        raise subprocess.CalledProcessError(done.returncode, fuzz)
    return json.loads((out / "summary.json").read_text())


if __name__ == "__main__":
    sys.exit(main())
