"""Compilers under test, behind one contract.

Reading order: `contract` (what an adapter implements), `registry` (which backends there are),
`target` (one way to compute a model), `runner` (runs test cases), `outcome` (the result of one),
`complaint` (what a compiler says when it fails).
"""
