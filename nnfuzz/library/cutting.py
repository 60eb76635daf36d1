"""Parts of a model, with the inputs that they have in it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from nnfuzz.backend.contract import suggest
from nnfuzz.library.experiment import Oracle
from nnfuzz.testcase.bench import CaseBench
from nnfuzz.testcase.case import CaseConfig, ModelError, TestCase

BEFORE, ALONE = "before", "node"


def cut(case: TestCase, node: str, folder: Path, plugins: Iterable[str | Path] = ()) -> list[Path]:
    """Writes before.onnx, which is the model up to a node, and node.onnx, the node alone, each with
    its inputs as .npz beside it; those of the node are what PyTorch computes. Returns the files.

    node: its name, or the name of one of its outputs. Raises: ModelError if there is no such node
    in the main graph, or no reference for it; OSError.
    """
    import onnx
    from onnx import helper

    from nnfuzz.materialize.walk import reads
    from nnfuzz.testcase.foreign import with_outputs

    plugins = list(plugins)
    whole = onnx.load_model_from_string(case.model).graph
    found = [n for n in whole.node if node in (n.name, *n.output) and node]
    if not found:
        known = [n.name or n.output[0] for n in whole.node]
        raise ModelError(f"no node has the name or the output {node!r}; {suggest(node, known)}")
    bench = CaseBench(CaseConfig(plugins=tuple(map(str, plugins))))
    values = bench.expose(case).expected if case.graph else {}
    outputs = [name for name in found[0].output if name in values]
    graph = Oracle(plugins).graph(case)
    before = with_outputs(case, graph, outputs, values) if outputs else None
    if before is None:
        raise ModelError(
            f"{node!r} cannot be cut: nnfuzz does not compute it, or it is in a function"
        )
    model = onnx.load_model_from_string(before.model)
    held = {tensor.name for tensor in whole.initializer}
    arrays = {**case.inputs, **case.weights, **values}
    given = {name: arrays[name] for name in reads(found[0]) if name in arrays and name not in held}
    del model.graph.node[:], model.graph.input[:]
    model.graph.node.append(found[0])
    for name, array in given.items():
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        model.graph.input.append(helper.make_tensor_value_info(name, dtype, array.shape))
    used = [tensor for tensor in whole.initializer if tensor.name in set(reads(found[0]))]
    del model.graph.initializer[:]
    model.graph.initializer.extend(used)
    return [
        *_written(folder / BEFORE, before.model, case.inputs),
        *_written(folder / ALONE, model.SerializeToString(), given),
    ]


def _written(stem: Path, model: bytes, inputs: dict[str, np.ndarray]) -> list[Path]:
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [stem.with_suffix(".onnx"), stem.with_suffix(".npz")]
    files[0].write_bytes(model)
    np.savez(files[1], **inputs)  # type: ignore[arg-type]
    return files
