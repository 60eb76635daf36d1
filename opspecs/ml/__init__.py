"""Operators of the domain ai.onnx.ml: what comes before and in classical models."""
