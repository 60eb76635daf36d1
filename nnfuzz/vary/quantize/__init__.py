"""Quantised twins: a graph of floats is replaced by one that computes with small integers."""
