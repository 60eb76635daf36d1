"""Compares how many tests nnfuzz and NNSmith 0.1.0 make for a second of CPU, by turns.

Both fuzz ONNX Runtime with models of ten operators: NNSmith at one optimisation level, nnfuzz at
two, once with everything on and once without reductions. NNSmith gets an environment of
its own on first use, which shares torch, onnx and onnxruntime with this one, and is adapted from
outside to today's torch and onnx.

    python -m scripts.bench.peer --seconds 60 --rounds 3 -- --exporter direct
"""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import subprocess
import sysconfig
import tempfile
import venv
from pathlib import Path
from typing import Annotated

import platformdirs
import typer

from scripts.campaigns import run_fuzz, set_options

NEEDED = ("hydra-core<1.4", "hydra-colorlog", "multipledispatch", "appdirs")
ADAPTED = """
import sys, warnings
warnings.simplefilter("ignore")
import onnx, torch
export = torch.onnx.export
torch.onnx.export = lambda *args, **options: export(*args, **{"dynamo": False, **options})
onnx._serialize = lambda model: model if isinstance(model, bytes) else model.SerializeToString()
from nnsmith.cli.fuzz import main
main()
"""
COUNT = re.compile(r"Total (\d+) testcases generated")
WAYS = {"everything on": (), "no reductions": set_options(reduce="no")}


def peer_python() -> Path:
    """The interpreter of NNSmith's environment, which is made if it is missing."""
    folder = platformdirs.user_cache_path("nnfuzz") / "peer"
    python = folder / "bin" / "python"
    if made := not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    shared = sysconfig.get_path("purelib")  # it may be another one than the last time
    (packages / "shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
    if made:
        install = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, *NEEDED], check=True)
        subprocess.run([*install, "--no-deps", "nnsmith==0.1.0"], check=True)
        (folder / "ready").touch()
    return python


def cpu_seconds() -> float:
    """Of all processes that have ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peer(python: Path, seconds: int, seed: int, out: Path) -> float:
    """NNSmith's tests for a second of CPU; 0 for the seeds with which it loops for minutes."""
    command = [
        python, "-c", ADAPTED, f"fuzz.time={seconds}s", f"fuzz.seed={seed}", f"fuzz.root={out}",
        "mgen.max_nodes=10", "model.type=onnx", "backend.type=onnxruntime",
    ]  # fmt: skip
    before, most = cpu_seconds(), 2 * seconds + 60
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, cwd=out.parent, env=environment, capture_output=True, text=True, timeout=most
        )
    except subprocess.TimeoutExpired:
        return 0.0
    found = COUNT.search(done.stdout + done.stderr)
    if found is None:
        raise SystemExit(f"NNSmith did not run:\n{done.stderr[-2000:]}")
    return int(found[1]) / (cpu_seconds() - before)


def ours(seconds: int, seed: int, out: Path, further: list[str]) -> float:
    """nnfuzz's tests for a second of CPU, its start included."""
    before = cpu_seconds()
    given = ["-b", "onnxruntime", "--time", f"{seconds}s", "--seed", seed, "--out", out]
    run_fuzz(*given, *further, OMP_NUM_THREADS="1")
    tests = json.loads((out / "summary.json").read_text())["tests"]
    return tests / (cpu_seconds() - before)


def main(
    further: Annotated[
        list[str] | None, typer.Argument(help="Options of nnfuzz fuzz, after --.")
    ] = None,
    seconds: Annotated[int, typer.Option(min=10, help="Of each run.")] = 60,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the first round; the next ones count on.")] = 0,
) -> None:
    python = peer_python()
    ratios: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(seed, seed + rounds):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            theirs = peer(python, seconds, turn, folder / "peer")
            print(f"seed {turn}: NNSmith {theirs:.1f} tests for a second of CPU", flush=True)
            for way, options in WAYS.items():
                given = [*options, *(further or [])]
                mine = ours(seconds, turn, folder / way.partition(" ")[0], given)
                print(f"seed {turn}: nnfuzz, {way}, {mine:.1f}", flush=True)
                if theirs:
                    ratios[way].append(mine / theirs)
    for way, found in ratios.items():
        if found:
            print(f"{way}: median ratio {statistics.median(found):.2f}")


if __name__ == "__main__":
    typer.run(main)
