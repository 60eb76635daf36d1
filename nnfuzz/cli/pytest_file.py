"""Which compiler the test_models.py of a corpus runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnfuzz.cli.errors import tell

if TYPE_CHECKING:
    from nnfuzz.backend.registry import BackendRegistry, BackendSpec

USUAL = "onnxruntime"
"""What runs a corpus that is for no compiler, or for one that needs nnfuzz to run."""


def models_under_pytest(registry: BackendRegistry, specs: Sequence[BackendSpec]) -> str:
    """The text of test_models.py: for the first of the compilers, else for the usual one."""
    from nnfuzz.corpus.pytest_file import PYTEST_FILE, pytest_file

    if own := pytest_file(specs[:1], registry):
        return own
    if specs:
        tell(f"{PYTEST_FILE} runs {USUAL}: {specs[0]} offers no program that does without nnfuzz")
    return pytest_file([registry.parse(USUAL)] if USUAL in registry.names() else [], registry)
