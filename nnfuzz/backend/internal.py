"""Whether an error comes from the inside of a compiler, or is its answer to a wrong model.

A compiler refuses a model by raising an error of its own on purpose. Errors that are raised by
accident are another matter: Python's errors for slips, assertions, C++'s errors of containers and
of conversions, errors of a library for an argument that it cannot take. The class and the place of
an error distinguish the two; the words of one compiler are the matter of its adapter
(`Backend.is_internal`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePath

from nnfuzz.backend.complaint import CompilerError
from nnfuzz.backend.slips import NATIVE, SLIPS, impossible, innermost

_PYTHON = re.compile(
    r"^(?:not enough values to unpack|too many values to unpack|invalid literal for int"
    r"|could not convert string to float|.* is not in list$|substring not found|max\(\) arg is"
    r"|min\(\) arg is|cannot reshape array|could not broadcast|operands could not be broadcast"
    r"|all the input array|axes don't match|negative dimensions are not allowed|buffer size must"
    r"|repeated axis|The truth value of an array|setting an array element|array is too big)"
)
"""Texts of ValueErrors that Python and NumPy raise for any caller."""
_PLEASE = re.compile(r"\bplease (?:report|file|open) (?:this|an? (?:bug|issue))", re.IGNORECASE)
_STANDARD_OWN = ("onnx", "google")
"""Packages whose own errors, of any class, state a fault of the model: the standard's
checker and readers, protobuf."""


def reads_as_internal(error: CompilerError, packages: Collection[str]) -> bool:
    """Whether an exception, by its class and place, was not meant as an answer.

    packages: the compiler's own, top-level. A function of the text alone.
    """
    package, _, name = error.error_type.rpartition(".")
    if impossible(error.error_type, error.message) or _PLEASE.search(error.message):
        return True
    if package.partition(".")[0] in (*packages, *_STANDARD_OWN):
        return False
    file, line = innermost(error.traceback)
    if not file or file.endswith(NATIVE):
        return False
    parts = PurePath(file).parts
    own = any(package in parts for package in packages)
    meant = own or any(package in parts for package in _STANDARD_OWN)
    if meant and line.startswith("raise"):
        return False
    if name in SLIPS:
        return True
    return name == "ValueError" and (not own or bool(_PYTHON.search(error.message)))
