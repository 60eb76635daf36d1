"""Writes the model of a bug as a folder of ONNX's node tests. Runs in a process of its own, since a
script is a program, and models may ask for much.

    python -m nnfuzz.bugs.node_test SCRIPT FOLDER
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def main(script: str, folder: Path) -> str:
    """Writes model.onnx and test_data_set_0; returns why there is none, or "".

    Expected outputs are those of onnx.reference, which has to agree with what the script expects.
    """
    import numpy as np
    import onnx
    from onnx import numpy_helper
    from onnx.reference import ReferenceEvaluator

    names = runpy.run_path(script, run_name="bug")
    model, inputs = names["load"]()
    proto = onnx.load_model_from_string(model)
    found = [value.name for value in proto.graph.output]
    try:
        outputs = dict(zip(found, ReferenceEvaluator(proto).run(None, dict(inputs))))
    except Exception as error:
        return f"onnx.reference cannot run it: {type(error).__name__}: {error}"
    if "OUTPUT" in names:
        actual = np.asarray(outputs[names["OUTPUT"]])
        same = (str(actual.dtype), actual.shape) == (names["DTYPE"], names["SHAPE"])
        value = actual[names["INDEX"]] if same and "INDEX" in names else None
        if not same or (value is not None and not names["LOW"] <= value <= names["HIGH"]):
            return "onnx.reference gives another result than the script expects"
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model)
    weights = {tensor.name for tensor in proto.graph.initializer}
    given = [value.name for value in proto.graph.input if value.name not in weights]
    for kind, arrays in (("input", [inputs[n] for n in given]), ("output", outputs.values())):
        for i, array in enumerate(arrays):
            name = given[i] if kind == "input" else found[i]
            tensor = numpy_helper.from_array(np.asarray(array), name)
            (data / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())
    return ""


if __name__ == "__main__":
    why = main(sys.argv[1], Path(sys.argv[2]))
    print(why)
    sys.exit(bool(why))
