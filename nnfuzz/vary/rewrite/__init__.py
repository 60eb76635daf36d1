"""Rewrites turn an ONNX model into another one with the same meaning (docs/REWRITES.md)."""
