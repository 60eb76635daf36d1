"""Compilers under test. Reading order: `contract` (what an adapter implements), `registry` (which there
are), `target` (one way to compute a model), `runner` (runs test cases), `outcome`, `complaint`.
"""
