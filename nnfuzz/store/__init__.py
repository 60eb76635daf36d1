"""A campaign on the disk: one SQLite file, the finding folders beside it, and the figures they add up to."""
