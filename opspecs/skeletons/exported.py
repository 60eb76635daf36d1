"""Skeletons that PyTorch's exporters make of modules; `scripts/make/skeletons.py` writes them."""

from __future__ import annotations

from pathlib import Path

MOTIF_FILES = (Path(__file__).with_name("exported.jsonl"),)
