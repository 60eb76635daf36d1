"""Runs `nnfuzz check` on models as people have them, and with a wrong kernel planted into each.

python -m scripts.check.zoo FOLDER -b onnxruntime      makes the models once, and checks them
python -m scripts.check.zoo FOLDER --planted           the same with one wrong node in each model

FOLDER gets an environment with scikit-learn and packages that ship models, the models, and the
JSON of each check, which is kept from run to run: delete it to check again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import onnx

import nnfuzz
import nnfuzz.testcase.bench  # loads PyTorch, once for all checks
from nnfuzz.backend.target import Target
from nnfuzz.materialize.walk import reads
from tests.planted import onnx_runtime as planted_runtime
from tests.planted.onnx_runtime import PLANTABLE, types

HERE = Path(__file__).parent
WITH_MODELS = ("silero-vad", "magika", "rapidocr-onnxruntime", "ddddocr", "nudenet")
LIBRARIES = ("skl2onnx", "onnxmltools", "packaging", "lightgbm", "xgboost")
SHIPPED = ("silero_vad/data", "magika/models", "rapidocr_onnxruntime/models", "ddddocr", "nudenet")
SECONDS = 600  # of CPU time for one check, without its compilers, which have limits of their own
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--planted", action="store_true", help="one wrong kernel in each model")
    parser.add_argument("-b", "--backend", action="append", default=[])
    args = parser.parse_args()
    models = args.folder / "models"
    if not models.exists():
        make(args.folder.resolve(), models)
    files = sorted(models.glob("*.onnx"), key=lambda file: file.stat().st_size)
    if args.planted:
        planted_table([row for file in files if (row := planted(file, args.folder))])
    else:
        results = args.folder / "-".join(["results", *args.backend])
        table([checked(file, results, args.backend) for file in files])


def make(folder: Path, models: Path) -> None:
    """Makes the environment and the models, and copies those that packages ship."""
    models.mkdir(parents=True)
    python = folder / "env/bin/python"
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    subprocess.run([*pip, "--no-deps", *WITH_MODELS], check=True)  # the files, not what runs them
    subprocess.run([*pip, *LIBRARIES], check=True)
    for interpreter, group in (python, "learned"), (sys.executable, "exported written"):
        for name in group.split():
            subprocess.run([interpreter, HERE / "zoo_models.py", name, models], check=True)
    (packages,) = (folder / "env/lib").glob("python*/site-packages")
    for place in SHIPPED:
        for file in sorted((packages / place).rglob("*.onnx")):
            shutil.copy(file, models / f"{place.partition('/')[0]}-{file.stem}.onnx")
    for file in Path(onnx.__file__).parent.glob("backend/test/data/light/*.onnx"):
        shutil.copy(file, models)


def checked(
    file: Path, results: Path, targets: Sequence[str | Target], plugins: Sequence[str] = ()
) -> Row:
    """The JSON of a check, with name, CPU seconds and GiB, or with the error as summary."""
    kept = results / f"{file.stem}.json"
    if kept.exists():
        return dict(json.loads(kept.read_text()))
    kept.parent.mkdir(exist_ok=True, parents=True)
    if not (child := os.fork()):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            check = nnfuzz.check_model(file, targets, plugins=plugins)
            kept.with_suffix(".txt").write_text(str(check))
            row = check.to_json()
        except BaseException as error:
            row = {"summary": f"{type(error).__name__}: {' '.join(str(error).split())}"}
        kept.write_text(json.dumps(row))
        os._exit(0)
    usage = os.wait4(child, 0)[2]
    row = json.loads(kept.read_text()) if kept.exists() else {"summary": "killed"}
    row |= {"name": file.stem, "gib": usage.ru_maxrss / (1 << 20)}
    row["cpu"] = usage.ru_utime + usage.ru_stime
    kept.write_text(json.dumps({k: v for k, v in row.items() if k not in ("targets", "inputs")}))
    print(f"{file.stem}: {row['cpu']:.1f} s, {row['summary'][:150]}", file=sys.stderr, flush=True)
    return dict(row)


def table(rows: list[Row]) -> None:
    """Prints a line for each model, and the totals."""
    refused, why, verdicts, shares = Counter[str](), Counter[str](), Counter[str](), [0.0][:0]
    for row in rows:
        outputs = row.get("outputs", [])
        own = [1.0 if o["agree"] or o["share"] >= 0.9 else o["share"] for o in outputs] or [0.0]
        shares += own
        refused.update([] if outputs else [row["summary"][:100]])
        why.update(text.partition(", at ")[0] for o in outputs if o["share"] < 0.9
                   for text in o["why"][:1])  # fmt: skip
        verdicts[verdict := row["summary"].partition(":")[0] if outputs else "refused"] += 1
        cost = f"{sum(own) / len(own):.0%} | {row['cpu']:.0f} | {row['gib']:.1f}"
        print(f"| {row['name']} | {verdict} | {cost} |")
    print(f"{len(rows)} models, {len(shares)} outputs, {sum(shares) / len(shares):.1%} compared or "
          f"agreed; CPU median {median(r['cpu'] for r in rows):.1f} s")  # fmt: skip
    for title, counts in ("verdicts", verdicts), ("refused", refused), ("no reference", why):
        print(title, *(f"\n  {count} {text}" for text, count in counts.most_common()))


def planted(file: Path, folder: Path) -> Row | None:
    """The check of ONNX Runtime beside a copy of it that computes one node of the model wrong; None
    where no node computes numbers of the inputs' elements.
    """
    model = onnx.load(file)
    known, weights = types(model), {tensor.name for tensor in model.graph.initializer}
    live = {value.name for value in model.graph.input} - weights
    used = {value.name for value in model.graph.output}.union(*map(reads, model.graph.node))
    choices = []
    for node in model.graph.node:
        if node.op_type not in ("Shape", "Size") and not live.isdisjoint(node.input):
            live.update(node.output)
            choices += [n for n in node.output if n in used and known.get(n) in PLANTABLE]
    if not choices:
        return None
    value = random.Random(file.stem).choice(choices)
    targets = ["onnxruntime", Target(f"planted,value={value}")]
    row = checked(file, folder / "planted", targets, [planted_runtime.__file__])
    own = [p for p in row.get("failures", ()) if any("planted" in name for name in p["targets"])]
    places = [place["value"] for place in own]  # the compiler may have faults of its own, too
    for node in row.get("nodes", ()):
        sides = [{target.partition(" ")[0] for target in own} for own in node["groups"]]
        apart = sides and not any({"onnxruntime", "planted"} <= own for own in sides)
        places += [node["name"]] if apart else []
    named = value in (places if own else places[:1])
    return row | {"told": bool(places), "right": named}


def planted_table(rows: list[Row]) -> None:
    """Prints the models whose wrong node is not named, and the totals."""
    print(*(f"{r['name']}: {r['summary']}" for r in rows if not r["right"]), sep="\n")
    told, right = (sum(row[key] for row in rows) for key in ("told", "right"))
    print(f"{len(rows)} planted, {told} told, {right} with the right node")


if __name__ == "__main__":
    main()
