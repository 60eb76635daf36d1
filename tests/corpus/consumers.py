"""A small corpus for tests of consumers, and one whose second model is wrong on purpose."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx

from nnfuzz.base.writing import as_json
from nnfuzz.corpus.generate import CorpusPlan, fill
from nnfuzz.corpus.producers import Producers
from nnfuzz.testcase.case import CaseConfig

CONFIG = CaseConfig(
    nodes=4,
    exporter="direct",
    opset=18,
    operators=("Add", "Mul", "Relu", "Conv", "MatMul", "Softmax", "Transpose"),
    dtypes={"float64": None, "float16": None, "bfloat16": None},
)
COUNT = 4


def corpus(folder: Path) -> Path:
    """Models of float32 and integers that every compiler takes, each with two data sets."""
    plan = CorpusPlan(COUNT, 3, as_json(CONFIG), {}, sets=2)
    with Producers(plan.seed, plan.config, 1, plan.sets) as producers:
        assert len(list(fill(folder, plan, producers.entries))) == COUNT
    return folder


def spoiled(folder: Path, copy: Path) -> str:
    """Copies the corpus with a wrong expected output in one data set, the second one of a test if
    there is any; returns that test's name.
    """
    shutil.copytree(folder, copy)
    tests = sorted(file.parent for file in copy.glob("*/model.onnx"))
    sets = [sorted(test.glob("test_data_set_*")) for test in tests]
    for test, found in sorted(zip(tests, sets), key=lambda pair: -len(pair[1])):
        file = found[-1] / "output_0.pb"
        tensor = onnx.load_tensor(file)
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            wrong = onnx.numpy_helper.from_array(array * np.float32(1.5) + 1, tensor.name)
            file.write_bytes(wrong.SerializeToString())
            return test.name
    raise AssertionError("no model with a float output")
