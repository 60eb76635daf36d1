"""Operators of the domain com.microsoft, which several compilers take beside those of ONNX."""
