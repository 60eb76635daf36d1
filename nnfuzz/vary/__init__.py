"""Variations: everything that makes a test case other than plain, in one table."""
