"""Runs one campaign several times and compares its test cases, outcomes and findings.

python -m scripts.check.determinism --backend onnxruntime --tests 300 --workers 1,2 --cache
python -m scripts.check.determinism --cases 200

There is one run per number of workers, each with another hash seed of Python; with --cache, one
more with the support tables of the first run. With --cases, there is no campaign: so many test
cases of every exporter, engine and variation are made under three hash seeds, the second time
backwards. Exits with 1 if two runs differ, and prints the first difference.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Any

from nnfuzz.backend.target import DIRECT
from nnfuzz.generate.config import ENGINES
from nnfuzz.materialize.opsets import OPSETS, default_opset, opsets_up_to
from nnfuzz.testcase.case import CaseConfig
from scripts.campaigns import contents, differences, run_fuzz, set_options

HASH_SEEDS = (1, 2, 3)
SHARES = [f.name for f in fields(CaseConfig) if f.type in ("float", "float | None", "bool")]
"""The settings that are the share of the test cases with a variation."""
Digests = dict[str, list[str]]
"""By configuration, one for each test case."""


def configurations() -> dict[str, CaseConfig]:
    """Every exporter, and in the direct form every engine and every variation of all test cases."""
    changes: dict[str, dict[str, Any]] = {name: {"engine": name} for name in ENGINES}
    changes |= {name: {name: 1.0} for name in SHARES if name != "unrestrained"}
    made = {}
    for name, change in {**{exporter: {} for exporter in OPSETS}, **changes}.items():
        exporter = name if name in OPSETS else DIRECT
        opsets = {exporter: default_opset(exporter)}
        config = CaseConfig(opsets=opsets_up_to(opsets), **change)
        made[name] = config.written_by(opsets)
    return made


def digests(names: Collection[str], seed: int, count: int, backwards: bool = False) -> Digests:
    """Digests of the first test cases of some configurations, in the order of their indexes."""
    from nnfuzz.base.threads import one_thread
    from nnfuzz.testcase.producer import Producer

    chosen = [(name, config) for name, config in configurations().items() if name in names]
    producer, found = Producer(seed, chosen[0][1]), Digests()
    step = -1 if backwards else 1
    with one_thread():
        for name, config in chosen[::step]:
            producer.configure(config)
            found[name] = [producer.produce(i).digest() for i in range(count)[::step]][::step]
    return found


def digests_elsewhere(
    hash_seed: int, names: Collection[str], seed: int, count: int, backwards: bool = False
) -> Digests:
    """The same from another process, with a hash seed of its own."""
    code = "import json, sys; from scripts.check.determinism import digests; "
    code += "print(json.dumps(digests(*json.loads(sys.argv[1]))))"
    command = [sys.executable, "-c", code, json.dumps([list(names), seed, count, backwards])]
    variables = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run(command, env=variables, check=True, text=True, stdout=subprocess.PIPE)
    return json.loads(run.stdout.splitlines()[-1])


def compare_cases(names: Collection[str], seed: int, count: int) -> int:
    """Prints how many test cases of each configuration depend on the process; the exit code."""
    differing = 0
    for name in names:
        runs = [
            digests_elsewhere(hash_seed, [name], seed, count, turn % 2 == 1)[name]
            for turn, hash_seed in enumerate(HASH_SEEDS)
        ]
        differ = [index for index, made in enumerate(zip(*runs)) if len({*made}) > 1]
        differing += len(differ)
        print(f"{name}: {len(differ)} of {count} differ {differ[:5] or ''}".rstrip(), flush=True)
    print(f"{differing} of {count * len(names)} differ")
    return int(bool(differing))


def main() -> int:
    options = _options()
    if options.cases:
        return compare_cases(options.only or [*configurations()], options.seed, options.cases)
    folder = Path(options.out or tempfile.mkdtemp(prefix="nnfuzz-determinism-"))
    runs = [(f"workers-{count}", count) for count in options.workers]
    runs += [("cached", options.workers[0])] if options.cache else []
    found = {}
    for hash_seed, (name, workers) in enumerate(runs):
        cache = folder / f"cache-{runs[0][0] if name == 'cached' else name}"
        start = time.monotonic()
        _campaign(options, folder / name, workers, cache, hash_seed)
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
    parser.add_argument("--cache", action="store_true", help="compare with cached support tables")
    parser.add_argument("--cases", type=int, default=0, help="compare test cases, so many of each")
    parser.add_argument("--only", nargs="+", help="with --cases: exporters, engines, variations")
    parser.add_argument("--out", help="folder of the campaigns; it must not exist yet")
    parser.add_argument("rest", nargs="*", help="further options of nnfuzz fuzz, behind --")
    return parser.parse_args()


def _campaign(
    options: argparse.Namespace, out: Path, workers: int, cache: Path, hash_seed: int
) -> None:
    processes = (*set_options(workers=workers), "--quiet", *options.rest)
    given = ("-b", options.backend, "--tests", options.tests, "--seed", options.seed, "--out", out)
    variables = {"XDG_CACHE_HOME": str(cache), "PYTHONHASHSEED": str(hash_seed)}
    run_fuzz(*given, *processes, **variables)


if __name__ == "__main__":
    sys.exit(main())
