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
    """Models of float32 and integers that every compiler takes, each with two equal data sets."""
    plan = CorpusPlan(COUNT, 3, as_json(CONFIG), {})
    with Producers(plan.seed, plan.config, 1) as producers:
        assert len([made for made in fill(folder, plan, producers.entries) if made]) >= COUNT
    for first in folder.glob("*/test_data_set_0"):
        shutil.copytree(first, first.with_name("test_data_set_1"))
    return folder


def spoiled(folder: Path, copy: Path) -> str:
    """Copies the corpus with a wrong expected output in the last data set of one test;
    returns its name.
    """
    shutil.copytree(folder, copy)
    tests = sorted(file.parent for file in copy.glob("*/model.onnx"))
    for test in tests:
        file = max(test.glob("test_data_set_*")) / "output_0.pb"
        tensor = onnx.load_tensor(file)
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            wrong = onnx.numpy_helper.from_array(array * np.float32(1.5) + 1, tensor.name)
            file.write_bytes(wrong.SerializeToString())
            return test.name
    raise AssertionError("no model with a float output")
