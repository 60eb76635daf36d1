"""Compare the speed of a campaign with that of NNSmith 0.1.0, by turns on the same machine.

Both fuzz ONNX Runtime with models of ten operators, NNSmith at one optimisation level, nnfuzz at
two. NNSmith gets a virtual environment of its own on first use, which shares torch, onnx and
onnxruntime with this one. It is adapted from outside to today's torch and onnx: the TorchScript
exporter is asked for, and `onnx._serialize` is given back. Further arguments go to `nnfuzz fuzz`.

    python -m scripts.bench.peer --seconds 60 --rounds 3 -- --exporter direct
"""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path
from typing import Annotated

import platformdirs
import typer

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
        install = [python, "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, *NEEDED], check=True)
        subprocess.run([*install, "--no-deps", "nnsmith==0.1.0"], check=True)
        (folder / "ready").touch()
    return python


Rates = tuple[float, float]
"""Tests per second, and per second of CPU time of all processes."""


def peer(python: Path, seconds: int, seed: int, out: Path) -> Rates:
    """NNSmith's; with some seeds it loops for minutes: then it gets twice its time and no more."""
    command = [
        python, "-c", ADAPTED, f"fuzz.time={seconds}s", f"fuzz.seed={seed}", f"fuzz.root={out}",
        "mgen.max_nodes=10", "model.type=onnx", "backend.type=onnxruntime",
    ]  # fmt: skip
    before = _cpu_seconds()
    try:
        done = subprocess.run(
            command, cwd=out.parent, capture_output=True, text=True, timeout=2 * seconds + 60
        )
    except subprocess.TimeoutExpired:
        return 0.0, 0.0
    found = COUNT.search(done.stdout + done.stderr)
    if found is None:
        raise typer.Exit(f"NNSmith did not run:\n{done.stderr[-2000:]}")
    return int(found[1]) / seconds, int(found[1]) / (_cpu_seconds() - before)


def _cpu_seconds() -> float:
    """Of all processes that have ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ours(seconds: int, seed: int, out: Path, further: list[str]) -> Rates:
    """nnfuzz's; start-up, probes and reductions included."""
    before = _cpu_seconds()
    command = [sys.executable, "-m", "nnfuzz.fuzz", "--backend", "onnxruntime"]
    command += ["--time", f"{seconds}s", "--seed", str(seed), "--out", str(out), *further]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode > 1:  # 1: it has found something
        raise typer.Exit(done.stderr[-2000:])
    tests = json.loads((out / "summary.json").read_text())["tests"]
    return tests / seconds, tests / (_cpu_seconds() - before)


def main(
    further: Annotated[
        list[str] | None, typer.Argument(help="Options of nnfuzz fuzz, after --.")
    ] = None,
    seconds: Annotated[int, typer.Option(min=10, help="Of each run.")] = 60,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the first round; the next ones count on.")] = 0,
) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    python = peer_python()
    rates: list[tuple[Rates, Rates]] = []
    for turn in range(seed, seed + rounds):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            theirs = peer(python, seconds, turn, folder / "peer")
            mine = ours(seconds, turn, folder / "ours", further or [])
        print(f"seed {turn}: NNSmith {_told(theirs)}; nnfuzz {_told(mine)}", flush=True)
        if theirs[0]:
            rates.append((theirs, mine))
    for place, name in enumerate(("wall", "CPU")):
        ratios = [mine[place] / theirs[place] for theirs, mine in rates]
        if ratios:
            print(f"median ratio by {name} time {statistics.median(ratios):.2f}")


def _told(rates: Rates) -> str:
    return f"{rates[0]:.1f} tests/s, {rates[1]:.1f} per CPU second"


if __name__ == "__main__":
    typer.run(main)
