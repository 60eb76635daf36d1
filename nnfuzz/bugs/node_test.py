"""Writes the model of a bug as a test that is data: a folder of ONNX's node tests.

    python -m nnfuzz.bugs.node_test SCRIPT FOLDER

Runs in a process of its own, since a script is a program, and models may ask for much.
"""

from __future__ import annotations

import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnfuzz.bugs.bug import BugError
from nnfuzz.bugs.script_parts import parts_of

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto


@dataclass(frozen=True)
class Expected:
    """The model of a script, its inputs by name, and what onnx.reference returns for it."""

    model: ModelProto
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]


def expected_of(script: str) -> Expected | str:
    """What a script's model returns by onnx.reference, which has to agree with what the script
    expects; or why that is not known.
    """
    import numpy as np
    import onnx
    from onnx.reference import ReferenceEvaluator

    names = _names(Path(script))
    if "load" in names:
        model, inputs = names["load"]()
        proto = onnx.load(model) if isinstance(model, str) else onnx.load_model_from_string(model)
    elif "MODEL" in names and "INPUTS" in names:
        proto, inputs = onnx.parser.parse_model(names["MODEL"]), names["INPUTS"]
    else:
        return "it has no model"
    found = [value.name for value in proto.graph.output]
    try:
        results = ReferenceEvaluator(proto).run(None, dict(inputs))
    except Exception as error:
        return f"onnx.reference cannot run it: {type(error).__name__}: {error}"
    outputs = {name: np.asarray(result) for name, result in zip(found, results)}
    if "OUTPUT" in names:
        actual = outputs[names["OUTPUT"]]
        same = (str(actual.dtype), actual.shape) == (names["DTYPE"], names["SHAPE"])
        value = actual[names["INDEX"]] if same and "INDEX" in names else None
        if not same or (value is not None and not names["LOW"] <= value <= names["HIGH"]):
            return "onnx.reference gives another result than the script expects"
    weights = {tensor.name for tensor in proto.graph.initializer}
    given = [value.name for value in proto.graph.input if value.name not in weights]
    return Expected(proto, {name: np.asarray(inputs[name]) for name in given}, outputs)


def _names(script: Path) -> dict[str, Any]:
    """What a script defines, without running its end if that is possible."""
    try:
        body = parts_of(script).body
    except BugError:
        return runpy.run_path(str(script), run_name="bug")
    names: dict[str, Any] = {}
    exec(body, names)
    return names


def main(script: str, folder: Path) -> str:
    """Writes model.onnx and test_data_set_0; returns why there is none, or ""."""
    from onnx import numpy_helper

    found = expected_of(script)
    if isinstance(found, str):
        return found
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(found.model.SerializeToString())
    for kind, arrays in (("input", found.inputs), ("output", found.outputs)):
        for i, (name, array) in enumerate(arrays.items()):
            tensor = numpy_helper.from_array(array, name)
            (data / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())
    return ""


if __name__ == "__main__":
    why = main(sys.argv[1], Path(sys.argv[2]))
    print(why)
    sys.exit(bool(why))
