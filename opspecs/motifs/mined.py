"""Patterns that `scripts/make/patterns.py` has mined from the tests of compilers, with their sources."""

from __future__ import annotations

from pathlib import Path

MOTIF_FILES = (Path(__file__).with_name("mined.jsonl"),)
