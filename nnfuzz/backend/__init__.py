"""Compilers under test, behind one contract.

Reading order: `contract` (the interface of an adapter), `registry` (the known backends),
`target` (one way to compute a model), `runner` (runs test cases), `outcome` (the result of one),
`complaint` (a compiler's error message).
"""
