"""Folders of findings: written and read, replayed, reduced and bisected."""
