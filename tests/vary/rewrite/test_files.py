"""Weights in files beside the model."""

import numpy as np
import onnx
import pytest
from nnfuzz.backends.onnxruntime import OnnxRuntime
from onnx import numpy_helper

from nnfuzz.backend.contract import Backend
from nnfuzz.base.external_data import write_model
from nnfuzz.vary.rewrite.rewriting import Step, rewritten
from tests.vary.rewrite.test_rewriting import everything, inputs_of  # noqa: F401 (a fixture)


def externals(path) -> list[dict[str, str]]:
    tensors = onnx.load(path, load_external_data=False).graph.initializer
    return [{e.key: e.value for e in t.external_data} for t in tensors if t.external_data]


def test_layouts_differ_and_keep_every_weight(everything, tmp_path):  # noqa: F811
    weights = onnx.load_from_string(everything).graph.initializer
    before = {tensor.name: numpy_helper.to_array(tensor) for tensor in weights}
    files, offsets, entries = set(), set(), []
    for number in range(40):
        path = tmp_path / str(number) / "model.onnx"
        path.parent.mkdir()
        write_model(rewritten(everything, [Step("external_data", number)])[0], path)
        onnx.checker.check_model(str(path))
        for tensor in onnx.load(path).graph.initializer:
            np.testing.assert_array_equal(numpy_helper.to_array(tensor), before[tensor.name])
        made = externals(path)
        entries += made
        files.add(len({e["location"] for e in made}))
        offsets |= {int(e.get("offset", 0)) for e in made}
    assert {1, 2} <= files and max(files) > 2
    assert any("/" in e["location"] for e in entries) and any("offset" not in e for e in entries)
    assert any(o % 4096 == 0 for o in offsets - {0}) and any(o % 2 for o in offsets)


class Bytes(OnnxRuntime):
    loads_files = False


@pytest.mark.parametrize("kind", [OnnxRuntime, Bytes])
def test_a_compiler_that_loads_files_gets_one(kind: type[Backend], everything):  # noqa: F811
    model = rewritten(everything, [Step("external_data", 1)])[0]
    backend, inputs = kind(), inputs_of(everything)
    imported = backend.import_model(model)
    assert (imported.file is not None) == kind.loads_files
    outputs = backend.compile(imported, "O3")(inputs)
    for name, array in backend.compile(backend.import_model(everything), "O3")(inputs).items():
        np.testing.assert_array_equal(outputs[name], array)
    plain = backend.import_model(everything)
    assert plain.file is None
