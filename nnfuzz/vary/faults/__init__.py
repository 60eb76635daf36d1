"""Models with one deliberate fault, each of which violates a clause of the ONNX standard."""
