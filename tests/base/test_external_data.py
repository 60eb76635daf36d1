"""Models whose tensors lie in files beside them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnfuzz.base.external_data import FILLING, names_files, write_model
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import parsed_model, read_embedded


def model(*places: tuple[str, int]) -> bytes:
    """y = the sum of a weight for each place, which is named by its tensor."""
    weights = []
    for i, (location, offset) in enumerate(places):
        tensor = numpy_helper.from_array(np.full(3, i, np.float32), f"w{i}")
        tensor.external_data.add(key="location", value=location)
        tensor.external_data.add(key="offset", value=str(offset))
        tensor.external_data.add(key="length", value=str(len(tensor.raw_data)))
        weights.append(tensor)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    nodes = [helper.make_node("Sum", [w.name for w in weights], ["y"])]
    made = helper.make_model(helper.make_graph(nodes, "g", [], [y], weights))
    return made.SerializeToString(deterministic=True)


def test_tensors_are_written_beside_the_model_and_read_back(tmp_path):
    data = model(("weights.bin", 5), ("data/weights.bin", 0), ("weights.bin", 20))
    assert names_files(data)
    parsed_model(data)  # it holds everything
    write_model(data, tmp_path / "m.onnx")
    content = (tmp_path / "weights.bin").read_bytes()
    assert len(content) == 32 and content[:5] == content[17:20][:1] * 5 == bytes([FILLING]) * 5
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    read = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert [numpy_helper.to_array(t)[0] for t in read] == [0, 1, 2]
    with pytest.raises(Unreadable, match="in another file"):
        parsed_model((tmp_path / "m.onnx").read_bytes())
    assert read_embedded(tmp_path / "m.onnx") == data


def test_a_tensor_whose_place_is_taken_stays_in_the_model(tmp_path):
    write_model(model(("w.bin", 0), ("w.bin", 4)), tmp_path / "m.onnx")
    inside = onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.initializer
    assert [bool(tensor.raw_data) for tensor in inside] == [True, False]
    read = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert [numpy_helper.to_array(t)[0] for t in read] == [0, 1]


def test_no_file_has_a_name_that_a_model_chose(tmp_path):
    names = ["../w.bin", "/w.bin", "numpy.py", "numpy/__init__.py", "m.onnx", "weights.bin\n", ""]
    write_model(model(*((name, 0) for name in ["model.onnx.data1", *names])), tmp_path / "m.onnx")
    numbers = ["", *range(1, len(names) + 1)]  # 1 is the model's own
    assert {path.name for path in tmp_path.iterdir()} == {
        "m.onnx", *(f"model.onnx.data{number}" for number in numbers)
    }  # fmt: skip
    read = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert [numpy_helper.to_array(t)[0] for t in read] == [*range(len(names) + 1)]


@pytest.mark.parametrize("entry", [("offset", "-1"), ("offset", "x"), ("location", None)])
def test_a_place_without_sense_is_none(entry, tmp_path):
    proto = onnx.load_model_from_string(model(("weights.bin", 0)))
    entries = {e.key: e.value for e in proto.graph.initializer[0].external_data} | dict([entry])
    del proto.graph.initializer[0].external_data[:]
    for key, value in entries.items():
        if value is not None:
            proto.graph.initializer[0].external_data.add(key=key, value=value)
    write_model(proto.SerializeToString(), tmp_path / "m.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_other_models_are_written_as_they_are(tmp_path):
    for data in (model(), b"no model"):
        write_model(data, tmp_path / "m.onnx")
        assert read_embedded(tmp_path / "m.onnx") == data and not names_files(data)
