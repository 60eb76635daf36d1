"""Whether an error comes from the inside of a compiler, or is its answer to a wrong model.

A compiler refuses a model by raising an error of its own on purpose. What is raised by accident is
another matter: Python's errors for slips, assertions, C++'s errors of containers and of
conversions, errors of a library that was handed what it cannot take. The class and the place of an
error tell them apart; the words of one compiler are the matter of its adapter
(`Backend.is_internal`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePath

from nnfuzz.execute.complaint import CompilerError

_SLIPS = frozenset(
    "AttributeError BufferError IndexError KeyError LookupError NameError OverflowError "
    "StopIteration TypeError UnicodeDecodeError UnicodeEncodeError error".split()
)
"""What Python raises for mistakes in the code at hand, and what a compiler may raise on purpose as
well; "error" is that of struct."""
_NEVER_MEANT = frozenset(
    "AssertionError RecursionError SystemError UnboundLocalError ZeroDivisionError".split()
)
_NAMED = re.compile(r"internal|assert|unreachable", re.IGNORECASE)
"""Classes of compilers that say so themselves."""
_STANDARD = re.compile(
    r"\b(?:vector|deque|basic_string|map|unordered_map|_Map_base|array|bitset|optional|list)(?:<.*>)?"
    r"::(?:_M_\w+|at|_S_\w+|substr|reserve|replace|erase|compare)\b"
    r"|\bbad[_ ](?:variant|optional|any|function|cast|weak_ptr|array_new_length)\w*"
    r"|\bsto(?:i|l|ll|ul|ull|f|d)\b|\bcannot create std::|\bstd::(?:length_error|out_of_range)\b"
)
"""What C++'s standard library says: nobody has meant it as an answer."""
_PYTHON = re.compile(
    r"^(?:not enough values to unpack|too many values to unpack|invalid literal for int"
    r"|could not convert string to float|.* is not in list$|substring not found|max\(\) arg is"
    r"|min\(\) arg is|cannot reshape array|could not broadcast|operands could not be broadcast"
    r"|all the input array|axes don't match|negative dimensions are not allowed|buffer size must"
    r"|repeated axis|The truth value of an array|setting an array element|array is too big)"
)
"""Texts of ValueErrors that Python and NumPy raise, whoever has called them."""
_WORDS = re.compile(
    r"\binternal (?:\w+ )?error\b|\bunreachable\b|\bnot reach(?:ed|able)? here\b"
    r"|\bshould (?:never|not) (?:happen|be reached|reach|get here|be here)"
    r"|\bthis is (?:likely )?a bug\b|\bassert(?:ion)?\b.{0,80}\bfailed\b"
    r"|\bplease (?:report|file|open) (?:this|an? (?:bug|issue))",
    re.IGNORECASE,
)
"""Ordinary English for what its author has thought impossible."""
_FRAME = re.compile(r'^  File "([^"]*)", line \d+, in .*\n(?:    (.*))?', re.MULTILINE)
_NATIVE = (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".pyx", ".rs")
_STANDARD_OWN = ("onnx", "google")
"""Packages whose own errors, of whatever class, say what is wrong with a model: the standard's
checker and readers, protobuf."""


def reads_as_internal(error: CompilerError, packages: Collection[str]) -> bool:
    """Whether an exception, by its class and place, was not meant as an answer.

    packages: the compiler's own, top-level. A function of the text alone.
    """
    package, _, name = error.error_type.rpartition(".")
    if name in _NEVER_MEANT or _NAMED.search(name):
        return True
    if _STANDARD.search(error.message) or _WORDS.search(error.message):
        return True
    if package.partition(".")[0] in (*packages, *_STANDARD_OWN):
        return False
    file, line = innermost(error.traceback)
    if not file or file.endswith(_NATIVE):
        return False
    parts = PurePath(file).parts
    own = any(package in parts for package in packages)
    meant = own or any(package in parts for package in _STANDARD_OWN)
    if meant and line.startswith("raise"):
        return False
    if name in _SLIPS:
        return True
    return name == "ValueError" and (not own or bool(_PYTHON.search(error.message)))


def slip(error_type: str) -> bool:
    """Whether Python raises errors of a class for mistakes in the code at hand: the innermost line
    is then their place. What native code raises ends where that is called.
    """
    return error_type.rpartition(".")[2] in _SLIPS | _NEVER_MEANT


def innermost(traceback: str) -> tuple[str, str]:
    """File and source line of the innermost frame of the error that ended it; "" if unknown."""
    frames = _FRAME.findall(traceback)
    return (frames[-1][0], (frames[-1][1] or "").strip()) if frames else ("", "")
