"""Collects small ONNX models out of installed packages, as seed models.

python -m scripts.make.seeds seeds                       # all that can be used
python -m scripts.make.seeds seeds --passes onnxruntime  # and which passes they add
nnfuzz fuzz -b onnxruntime --seed-models seeds

Reads the .onnx files of every installed package, and the models of onnx's backend tests of single
nodes, with their expansions into functions. A model is kept if it is small, if generation can start
from all of it, and if no other one has the same operators with the same attributes and types.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import onnx
import typer
from onnx import ModelProto, helper

from nnfuzz.backend.jobs import RunLevels
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.backend.stage import Stage
from nnfuzz.materialize.importing import import_onnx, opaque_nodes
from nnfuzz.materialize.static import OnnxImportError
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer

MOST_BYTES = 1 << 19
SMALL = 40
"""Most nodes of a seed model: graphs that start from whole networks are too slow."""


def installed() -> Iterator[tuple[str, str, ModelProto]]:
    """(package, name, model) of all installed models."""
    site = Path(onnx.__file__).parent.parent
    for file in sorted(site.rglob("*.onnx")):
        if file.is_file() and file.stat().st_size <= MOST_BYTES:
            place = file.relative_to(site)
            model = onnx.load(file, load_external_data=False)
            yield place.parts[0], "_".join(place.with_suffix("").parts[1:]), model
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        if case.model is not None:
            yield "onnx", f"node_{case.name}", case.model


def likeness(model: ModelProto) -> str:
    """A digest of operators, attributes and types of inputs, without names."""
    told = []
    for node in model.graph.node:
        attributes = sorted((a.name, str(helper.get_attribute_value(a))) for a in node.attribute)
        told.append((node.domain, node.op_type, len(node.input), attributes))
    types = [v.type.SerializeToString(deterministic=True) for v in model.graph.input]
    return hashlib.sha256(repr((told, types)).encode()).hexdigest()


def why_not(model: ModelProto, registry: OpRegistry, opset: int) -> str:
    """The reason why generation cannot start from all of a model; "" if it can."""
    if not 1 <= len(model.graph.node) <= SMALL:
        return "too large" if model.graph.node else "empty"
    if any(t.data_location == onnx.TensorProto.EXTERNAL for t in model.graph.initializer):
        return "external data"
    try:
        imported = import_onnx(model, registry, opset)
    except OnnxImportError:
        return "cannot be imported"
    except Exception as error:
        return f"cannot be imported: {type(error).__name__}"
    if imported.lost:
        return "nodes would be lost"
    opaque = opaque_nodes(imported.graph)
    return "only opaque nodes" if len(opaque) == len(imported.graph.nodes) else ""


def fired(label: str, models: dict[str, bytes]) -> Counter[str]:
    """Counts of passes of a backend that change models at its most optimised level. Models that do
    not compile are not counted.
    """
    registry, counts = BackendRegistry.discover(), Counter[str]()
    with BackendRunner(registry.parse(label), registry) as runner:
        level = runner.backend.levels[-1]
        for data in models.values():
            runner.submit(RunLevels(data, {}, (level,), until=Stage.COMPILE))
            if all(outcome.ok for outcome in runner.wait()):
                counts.update(runner.fired_passes(data, level) or ())
    return counts


def generated(count: int, opset: int) -> dict[str, bytes]:
    """`count` generated models of ten operators, for comparison."""
    producer = Producer(0, CaseConfig(exporter="direct", opset=opset))
    cases = (producer.produce(index) for index in range(count))
    return {str(case.id): case.model for case in cases if isinstance(case, TestCase)}


def main(
    out: Annotated[Path, typer.Argument(help="Folder for the models; must not exist.")],
    opset: Annotated[int, typer.Option(help="At which the graphs are.")] = 22,
    passes: Annotated[str, typer.Option(help="A backend that tells its passes.")] = "",
    most: Annotated[int, typer.Option(help="Models to keep.")] = 10_000,
) -> None:
    if out.exists():
        raise typer.BadParameter(f"{out} exists already: name another folder")
    warnings.simplefilter("ignore")
    registry, reasons, kept = OpRegistry.load(), Counter[str](), dict[str, bytes]()
    seen, packages = set[str](), Counter[str]()
    for package, name, model in installed():
        alike = likeness(model)
        reason = "like another one" if alike in seen else why_not(model, registry, opset)
        seen.add(alike)
        if reason or len(kept) >= most:
            reasons[reason or "enough"] += 1
            continue
        file = re.sub(r"[^\w.-]+", "-", name)[:120] + ".onnx"
        place = out / package / file
        place.parent.mkdir(parents=True, exist_ok=True)
        kept[str(place)] = model.SerializeToString(deterministic=True)
        place.write_bytes(kept[str(place)])
        packages[package] += 1
    for package, count in packages.most_common():
        print(f"{count:6d} of {package}")
    for reason, count in reasons.most_common():
        print(f"{count:6d} left out: {reason}")
    print(f"{len(kept)} seed models in {out}")
    if passes:
        own, others = fired(passes, kept), fired(passes, generated(len(kept), opset))
        print(f"{len(own)} passes change seeds, {len(others)} change as many generated models")
        print("with seeds alone: " + ", ".join(sorted(own.keys() - others.keys())))


if __name__ == "__main__":
    typer.run(main)
