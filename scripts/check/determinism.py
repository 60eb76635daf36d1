"""Runs one campaign several times and compares its test cases, outcomes and findings.

python -m scripts.check.determinism --backend onnxruntime --tests 300 --workers 1,2 --load 2

There is one run per number of workers (and producers); with --load, one more beside processes that
burn CPU; with --cache, one more with the support tables of the first run. Exits with 1 if two runs
differ, and prints the first difference.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from scripts.campaigns import contents, differences, run_fuzz, set_options


def main() -> int:
    options = _options()
    folder = Path(options.out or tempfile.mkdtemp(prefix="nnfuzz-determinism-"))
    runs = [(f"workers-{count}", count, 0) for count in options.workers]
    runs += [("loaded", options.workers[-1], options.load)] if options.load else []
    runs += [("cached", options.workers[0], 0)] if options.cache else []
    found = {}
    for name, workers, load in runs:
        cache = folder / f"cache-{runs[0][0] if name == 'cached' else name}"
        start = time.monotonic()
        with _burning(load):
            _campaign(options, folder / name, workers, cache)
        found[name] = contents(folder / name)
        tests, findings = len(found[name]["tests"]), len(found[name]["signatures"])
        seconds = time.monotonic() - start
        print(f"{name}: {tests} tests, {findings} signatures, {seconds:.0f} s", flush=True)
    first, *others = found
    differ = [(name, line) for name in others for line in differences(found[first], found[name])]
    for name, line in differ:
        print(f"{first} and {name}: {line}")
    print(f"not the same; the campaigns are in {folder}" if differ else "the same")
    return int(bool(differ))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="onnxruntime")
    parser.add_argument("--tests", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    counts = {"type": lambda text: [int(n) for n in text.split(",")], "default": [1, 2]}
    parser.add_argument("--workers", help="numbers of workers, with commas between", **counts)
    parser.add_argument("--load", type=int, default=0, help="processes that burn CPU beside")
    parser.add_argument("--cache", action="store_true", help="compare with cached support tables")
    parser.add_argument("--out", help="folder of the campaigns; it must not exist yet")
    parser.add_argument("rest", nargs="*", help="further options of nnfuzz fuzz, behind --")
    return parser.parse_args()


def _campaign(options: argparse.Namespace, out: Path, workers: int, cache: Path) -> None:
    processes = (*set_options(workers=workers, producers=workers), "--quiet", *options.rest)
    given = ("-b", options.backend, "--tests", options.tests, "--seed", options.seed, "--out", out)
    run_fuzz(*given, *processes, XDG_CACHE_HOME=str(cache))


@contextmanager
def _burning(count: int):
    """Processes that burn CPU within the block."""
    burners = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(count)]
    for burner in burners:
        burner.start()
    yield
    for burner in burners:
        burner.terminate()


def _burn() -> None:
    while True:
        sum(range(10_000))


if __name__ == "__main__":
    sys.exit(main())
