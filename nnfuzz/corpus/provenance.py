"""The files beside the models of a corpus: their origin, their licence, how to run them."""

from __future__ import annotations

README = """# Regression models

Random valid ONNX models, each with inputs, expected outputs and tolerances, made by nnfuzz
(https://github.com/nnfuzz/nnfuzz). `manifest.json` has the seed, the settings and the versions
that they follow from byte for byte, and their licence as an SPDX expression. No data of others is
in them, but for what the manifest names as seed models.

    test_NAME/model.onnx                                  weights inside
    test_NAME/test_data_set_N/input_K.pb, output_K.pb     in the order of the model's
    test_NAME/data.json, config.txt                       rtol and atol, overall and per output
    test_NAME/nnfuzz.json, weights.npz                    for nnfuzz's own oracle

Expected outputs are PyTorch's. An output is right if |actual - expected| <= atol + rtol |expected|
everywhere; discrete ones must be equal. Any of these runs them:

    nnfuzz verify . --backend NAME
    pytest test_models.py                                 without nnfuzz
    onnx_test_runner .
    polygraphy run test_NAME/model.onnx --onnxrt --data-loader-script polygraphy_data.py

"""

POLYGRAPHY = '''"""Inputs for polygraphy run TEST/model.onnx ... --data-loader-script THIS.

The test is that of the model on the command line, or what the variable NNFUZZ_TEST names.
`python THIS TEST OUT.json` writes the expected outputs for --load-outputs.
"""

import os
import sys
from pathlib import Path

import onnx
from onnx import numpy_helper


def load_data():
    for folder in data_sets():
        yield arrays(folder, "input")


def data_sets():
    named = [os.environ["NNFUZZ_TEST"]] if "NNFUZZ_TEST" in os.environ else sys.argv
    test = next(p if p.is_dir() else p.parent for p in map(Path, named) if "model.onnx" in names(p))
    return sorted(test.glob("test_data_set_*"), key=lambda p: int(p.name.rpartition("_")[2]))


def names(path):
    return [path.name, *(p.name for p in path.glob("model.onnx"))]


def arrays(folder, stem):
    files = sorted(folder.glob(f"{stem}_*.pb"), key=lambda p: int(p.stem.rpartition("_")[2]))
    tensors = [onnx.load_tensor(file) for file in files]
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}


if __name__ == "__main__":
    from polygraphy.comparator import IterationResult, RunResults

    found = RunResults()
    outputs = [arrays(folder, "output") for folder in data_sets()]
    found.append(("expected", [IterationResult(part, runner_name="expected") for part in outputs]))
    found.save(sys.argv[2])
'''

COMPANIONS = {"README.md": README, "polygraphy_data.py": POLYGRAPHY}
"""Files of every corpus by name."""
