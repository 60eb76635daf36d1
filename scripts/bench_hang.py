"""What hangs cost: a backend that never returns from one model in sixty, beside one that does.

python scripts/bench_hang.py --seconds 35 --turns 1

Both run by turns under the same settings (scripts/sleepers.py). Prints the tests per minute of
each, their ratio, and how many of the hangs the summary tells. Exit code 1 below --least, or if a
hang is missing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PLUGIN = Path(__file__).with_name("sleepers.py")


def main() -> int:
    options = _options()
    folder = Path(options.out or tempfile.mkdtemp(prefix="nnfuzz-hang-"))
    rates: dict[str, list[float]] = {"awake": [], "sleepy": []}
    planted = told = 0
    for turn in range(options.turns):
        for name, found in rates.items():
            out, log = folder / f"{name}-{turn}", folder / f"hangs-{turn}"
            summary = _campaign(options, name, out, log)
            found.append(60 * summary["tests"] / summary["seconds"])
            print(f"{name}: {found[-1]:.0f} tests/min, hangs {summary['hangs']}", flush=True)
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
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=float, default=0.9, help="ratio that is good enough")
    parser.add_argument("--out", help="folder of the campaigns; it must not exist yet")
    parser.add_argument("rest", nargs="*", help="further options of nnfuzz fuzz, behind --")
    return parser.parse_args()


def _campaign(options: argparse.Namespace, name: str, out: Path, log: Path) -> dict[str, Any]:
    """The summary. Raises: CalledProcessError if the campaign fails; findings are no failure."""
    backend = f"{name},log={log}" if name == "sleepy" else name
    fuzz = [sys.executable, "-m", "nnfuzz.cli.main", "fuzz", "-b", backend, "--quiet"]
    fuzz += ["--plugin", str(PLUGIN), "--time", f"{options.seconds}s", "--seed", str(options.seed)]
    fuzz += ["--probe", "0", "--no-reduce", "--out", str(out), *options.rest]
    done = subprocess.run(fuzz, stdout=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        raise subprocess.CalledProcessError(done.returncode, fuzz)
    return json.loads((out / "summary.json").read_text())


if __name__ == "__main__":
    sys.exit(main())
