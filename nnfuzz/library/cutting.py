"""Parts of a model, with the inputs that they have in it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from nnfuzz.backend.contract import suggest
from nnfuzz.testcase.bench import CaseBench
from nnfuzz.testcase.case import CaseConfig, ModelError, TestCase


def cut(case: TestCase, node: str, folder: Path, plugins: Iterable[str | Path] = ()) -> list[Path]:
    """Writes before.onnx, which is the model up to a node, and node.onnx, the node alone, each with
    its inputs as .npz beside it; those of the node are what PyTorch computes. Returns the files.

    node: its name, or the name of one of its outputs. Raises: ModelError if there is no such node
    in the main graph, or no reference for what it reads; OSError.
    """
    import onnx.utils

    from nnfuzz.materialize.walk import reads

    model = onnx.load_model_from_string(case.model)
    found = next((n for n in model.graph.node if node in (n.name, *n.output)), None)
    if found is None:
        known = [own.name or own.output[0] for own in model.graph.node]
        raise ModelError(f"no node has the name or the output {node!r}; {suggest(node, known)}")
    bench = CaseBench(CaseConfig(plugins=tuple(map(str, plugins))))
    values = {**(bench.expose(case).expected if case.graph else {}), **case.inputs}
    held = {tensor.name for tensor in model.graph.initializer}
    read = [name for name in dict.fromkeys(reads(found)) if name not in held]
    if lost := [name for name in read if name not in values]:
        raise ModelError(f"{node!r} cannot be cut: nnfuzz does not compute its input {lost[0]!r}")
    extractor, outputs = onnx.utils.Extractor(model), [name for name in found.output if name]
    files = []
    for stem, names in (("before", [*case.inputs]), ("node", read)):
        files += [folder / f"{stem}.onnx", folder / f"{stem}.npz"]
        onnx.save(extractor.extract_model(names, outputs), files[-2])
        np.savez(files[-1], **{name: values[name] for name in names})  # type: ignore[arg-type]
    return files
