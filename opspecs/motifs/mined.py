"""Patterns that `scripts/make/patterns.py` has mined from tests of compilers."""

from __future__ import annotations

from pathlib import Path

MOTIF_FILES = (Path(__file__).with_name("mined.jsonl"),)
