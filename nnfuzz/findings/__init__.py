"""Folders of findings: write and read them, reduce, replay and bisect what they hold."""
