"""How many ONNX models can be starting graphs (`--seed-models`), and why others cannot.

python -m scripts.check.seed_models              # onnx's own test models
python -m scripts.check.seed_models zoo/ -v      # all below a folder
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import onnx
import typer

from nnfuzz.materialize.importing import ImportedModel, import_onnx, opaque_nodes
from nnfuzz.materialize.static import OnnxImportError
from nnfuzz.spec.registry import OpRegistry

Models = Iterator[tuple[str, Callable[[], onnx.ModelProto]]]


def below(folder: Path) -> Models:
    for path in sorted(folder.rglob("*.onnx")):
        yield str(path.relative_to(folder)), lambda path=path: onnx.load(path)


def own() -> Models:
    """The models of onnx's backend tests: the files, then those of single nodes."""
    from onnx.backend.test.case.node import collect_testcases

    yield from below(Path(onnx.__file__).parent / "backend" / "test" / "data")
    for case in collect_testcases(None):
        yield case.name, lambda case=case: case.model


def sort_of(imported: ImportedModel) -> str:
    whole = "in part" if imported.lost else "whole"
    return f"{whole}, {'some nodes opaque' if opaque_nodes(imported.graph) else 'all compared'}"


def general(reason: str) -> str:
    """A reason without numbers and names of values."""
    reason = re.sub(r"\S+ (is no tensor|has a dtype|has \d+ elements)", r"a value \1", reason)
    reason = re.sub(r"the (size|type) of \S+", r"the \1 of a value", reason)
    return re.sub(r"\d+", "#", reason)[:110]


def main(
    folder: Annotated[Path | None, typer.Argument(help="Default: onnx's own tests.")] = None,
    opset: Annotated[int, typer.Option(help="At which the graphs are.")] = 26,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Name the models.")] = False,
) -> None:
    warnings.simplefilter("ignore")
    registry, counts, opaque = OpRegistry.load(), Counter[str](), Counter[str]()
    for name, load in below(folder) if folder else own():
        try:
            imported = import_onnx(load(), registry, opset)
            found = sort_of(imported)
            opaque.update(opaque_nodes(imported.graph))
        except OnnxImportError as error:
            found = f"not at all: {general(str(error))}"
        counts[found] += 1
        if verbose:
            print(f"{name}: {found}")
    total = counts.total()
    taken = total - sum(n for found, n in counts.items() if found.startswith("not at all"))
    for found, count in counts.most_common():
        print(f"{count:6d} {found}")
    print(f"opaque nodes: {', '.join(f'{k} {n}' for k, n in opaque.most_common(20))}")
    print(f"{taken} of {total} models can be starting graphs ({taken / max(1, total):.1%})")


if __name__ == "__main__":
    typer.run(main)
