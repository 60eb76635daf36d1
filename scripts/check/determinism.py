"""Runs one campaign several times and compares its test cases, outcomes and findings.

python -m scripts.check.determinism --backend onnxruntime --tests 300 --workers 1,2 --load 2

One run per number of workers (and producers), the last one beside --load processes that burn CPU,
and, with --cache, the first one again with the support tables that the others have left. Exit code
1 if two runs differ: then the first index that does is named, and what differs there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path


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
        found[name] = _read(folder / name)
        tests, findings = len(found[name]["tests"]), len(found[name]["findings"])
        seconds = time.monotonic() - start
        print(f"{name}: {tests} tests, {findings} signatures, {seconds:.0f} s", flush=True)
    first, *others = found
    same = [_compare(first, found[first], name, found[name]) for name in others]
    print("the same" if all(same) else f"not the same; the campaigns are in {folder}")
    return 0 if all(same) else 1


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
    """Raises: CalledProcessError if the campaign fails; findings are no failure."""
    fuzz = [sys.executable, "-m", "nnfuzz.cli.main", "fuzz", "-b", options.backend]
    fuzz += ["--tests", str(options.tests), "--seed", str(options.seed), "--out", str(out)]
    fuzz += ["--workers", str(workers), "--producers", str(workers), "--quiet", *options.rest]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(fuzz, env=environment, stdout=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        raise subprocess.CalledProcessError(done.returncode, fuzz)


@contextmanager
def _burning(count: int):
    """So many processes that do nothing else meanwhile."""
    burners = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(count)]
    for burner in burners:
        burner.start()
    yield
    for burner in burners:
        burner.terminate()


def _burn() -> None:
    while True:
        sum(range(10_000))


def _read(folder: Path) -> dict[str, dict]:
    """What must not differ: by index and by signature."""
    db = sqlite3.connect(folder / "campaign.sqlite")
    epochs = {
        number: (json.loads(refused), avoided)
        for number, refused, avoided in db.execute(
            "SELECT id, refused, (SELECT group_concat(item) FROM avoided WHERE epoch = id) "
            "FROM epochs"
        )
    }
    kinds = "SELECT idx, digest, status, epoch, outcomes FROM tests"
    tests = {index: (digest, status, e) for index, digest, status, e, _ in db.execute(kinds)}
    outcomes = {index: _kinds(text) for index, *_, text in db.execute(kinds)}
    seen = (
        "SELECT signature, min(idx), count(*) FROM occurrences WHERE bucket != 'flaky' GROUP BY 1"
    )
    findings = {signature: rest for signature, *rest in db.execute(seen)}
    probes = {
        (key, instance, backend): before
        for key, instance, backend, before in db.execute(
            "SELECT key, instance, backend, before FROM probes"
        )
    }
    kept = dict(db.execute("SELECT signature, test FROM findings"))
    return {
        "epochs": epochs,
        "probes": probes,
        "tests": tests,
        "outcomes": outcomes,
        "findings": findings,
        "folders": kept,
    }


def _kinds(text: str) -> dict[str, list[str]]:
    return {
        name: [told if isinstance(told, str) else told["kind"] for told in levels.values()]
        for name, levels in json.loads(text).items()
    }


def _compare(first: str, one: dict[str, dict], name: str, other: dict[str, dict]) -> bool:
    """Whether two runs are the same; says what differs first, group by group."""
    same = True
    for group in one:
        a, b = one[group], other[group]
        differ = [key for key in sorted({*a, *b}, key=str) if a.get(key) != b.get(key)]
        if differ:
            same = False
            key = min(differ, key=lambda k: (isinstance(k, str), k))
            print(
                f"{first} and {name}: {len(differ)} of {len({*a, *b})} {group} differ, first {key}:"
            )
            print(f"  {str(a.get(key))[:300]}\n  {str(b.get(key))[:300]}")
    return same


if __name__ == "__main__":
    sys.exit(main())
