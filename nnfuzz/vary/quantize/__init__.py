"""Quantised twins: a graph of floats becomes one that computes with small integers."""
