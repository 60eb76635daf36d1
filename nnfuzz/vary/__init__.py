"""Everything that makes a test case other than plain: one table of variations."""
