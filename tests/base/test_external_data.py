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
    data = model(("w.bin", 5), ("a/b.bin", 0), ("w.bin", 20))
    assert names_files(data)
    parsed_model(data)  # it holds everything
    write_model(data, tmp_path / "m.onnx")
    content = (tmp_path / "w.bin").read_bytes()
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


@pytest.mark.parametrize("name", ["../w.bin", "/w.bin"])
def test_nothing_is_written_outside_of_the_folder(name, tmp_path):
    with pytest.raises(ValueError, match="not inside"):
        write_model(model((name, 0)), tmp_path / "m.onnx")


def test_other_models_are_written_as_they_are(tmp_path):
    for data in (model(), b"no model"):
        write_model(data, tmp_path / "m.onnx")
        assert read_embedded(tmp_path / "m.onnx") == data and not names_files(data)
