"""Makes quantised twins, checks them with onnx, computes them on a compiler, and measures how much
of their outputs can be compared.

    python -m scripts.check.quantised --models 500
    python -m scripts.check.quantised --models 100 --share 0     the same graphs as they were
    python -m scripts.check.quantised --models 100 --targets tvm openvino --out wrong

Comparable is an element that a verdict can rest on; an output is sharply so if no rounding to a
coarse grid is open in it. Each failure is a line with the index of the test, its signature and what
the compiler says; --out keeps a folder for each. Exits with 1 if onnx refuses a model.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import onnx
from rich.progress import track

import nnfuzz
from nnfuzz.compare.envelope import Envelope
from nnfuzz.quantize.twin import LABEL


def main() -> int:
    arguments = parse()
    models = nnfuzz.Generator(
        seed=arguments.seed,
        exporter="direct",
        motifs=arguments.motifs,
        domains=tuple(arguments.domains),
        quantize=arguments.share,
    )
    oracle, counts = nnfuzz.Oracle(), Counter[str]()
    elements: Counter[str] = Counter()
    with nnfuzz.Experiment(arguments.targets) as run:
        for index in track(range(arguments.models), "models", disable=not sys.stderr.isatty()):
            try:
                case = models[index]
            except nnfuzz.NoTestCase as error:
                counts[f"no test: {error.why.stage}"] += 1
                continue
            style = next((m for m in case.motifs if m.startswith(LABEL)), "as it was")
            counts[style] += 1
            counts["refused by onnx"] += refused(case, index)
            compare(oracle, case, style, elements)
            for failure in outcomes(run(case), counts):
                print(f"{index} {style} {failure}: {message(failure)}", flush=True)
                if arguments.out:
                    failure.finding.save(f"{arguments.out}/{index}")
    report(counts, elements)
    return int(counts["refused by onnx"] > 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of twins")
    parser.add_argument("--motifs", type=float, default=1.5, help="per model")
    parser.add_argument("--targets", nargs="+", default=["onnxruntime"])
    parser.add_argument("--domains", nargs="*", default=["com.microsoft"])
    parser.add_argument("--out", default="", help="folder for failures")
    return parser.parse_args()


def refused(case: nnfuzz.TestCase, index: int) -> bool:
    """Whether onnx's checker refuses the model; its message is printed."""
    try:
        onnx.checker.check_model(onnx.load_from_string(case.model))
    except onnx.checker.ValidationError as error:
        print(f"{index} refused by onnx: {error}")
        return True
    return False


def compare(
    oracle: nnfuzz.Oracle, case: nnfuzz.TestCase, style: str, elements: Counter[str]
) -> None:
    """Counts outputs and elements, and those of them that can be compared."""
    for bounds in oracle.envelope(case).values():
        kind = f"{style}, {'floats' if bounds.dtype.is_float else 'others'}"
        elements[f"{kind}: outputs"] += 1
        elements[f"{kind}: outputs comparable"] += bool(bounds.comparable.all())
        elements[f"{kind}: elements"] += bounds.ref.size
        elements[f"{kind}: elements comparable"] += int(bounds.comparable.sum())
        if bounds.dtype.is_float:
            elements[f"{kind}: outputs, sharply"] += 1
            elements[f"{kind}: outputs, sharply comparable"] += sharp(bounds)


def sharp(bounds: Envelope) -> bool:
    """Whether no interval is wider than a thousandth of the greatest number: no step of a coarse
    grid is open.
    """
    width = (bounds.hi - bounds.lo).max(initial=0.0)
    return bool(bounds.comparable.all() and width <= 1e-3 * abs(bounds.ref).max(initial=0.0))


def outcomes(found: nnfuzz.Result, counts: Counter[str]) -> tuple[nnfuzz.Failure, ...]:
    """Counts the outcomes of all targets; the failures."""
    counts.update(f"{o.target}: {o.kind}" for o in found.outcomes)
    return found.failures


def message(failure: nnfuzz.Failure) -> str:
    """What the compiler says, or how far its outputs are off."""
    found = failure.finding
    wrong = found.verdict.mismatches.values() if found.verdict else ()
    said = next((o.message for o in found.outcomes if not o.ok and o.message), "")
    return (said or "; ".join(str(m) for ms in wrong for m in ms))[:300].replace("\n", " ")


def report(counts: Counter[str], elements: Counter[str]) -> None:
    for name, count in sorted(counts.items()):
        print(f"{count:6} {name}")
    for name, count in sorted(elements.items()):
        if not name.endswith("comparable"):
            share = elements[f"{name} comparable"] / max(count, 1)
            print(f"{count:9} {name}, {share:.1%} of them comparable")


if __name__ == "__main__":
    sys.exit(main())
