"""A campaign on the disk: one SQLite file, its finding folders, and the figures they add up to."""
