"""Inputs and outputs of a model."""

import numpy as np
import pytest

from nnfuzz.backend.interface import InputError, OnnxModel, TensorSpec
from tests.backend.test_console import model


def test_a_model_tells_its_interface_and_is_bytes():
    data = model("x", "y", rows="n")
    known = OnnxModel(data)
    assert known == data and isinstance(known, bytes)
    assert known.inputs == {"x": TensorSpec(np.dtype(np.float32), (None,))}
    assert [*known.outputs] == ["y"] and known.outputs["y"].dtype == np.float32
    with pytest.raises(InputError, match="not an ONNX model"):
        OnnxModel(b"\xff").inputs  # noqa: B018
