"""Where authorities on ONNX are wrong about the built-in operators, and the clauses that decide."""
