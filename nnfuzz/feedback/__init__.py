"""Decides which operators generation uses: not those that a compiler refuses, by its table or by
its answers before the first test, and few of those that fail again and again.
"""
