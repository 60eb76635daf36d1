"""Errors that nobody has raised on purpose: slips of Python, assertions, errors of C++ itself."""

from __future__ import annotations

import re

SLIPS = frozenset(
    "AttributeError BufferError IndexError KeyError LookupError NameError OverflowError "
    "StopIteration TypeError UnicodeDecodeError UnicodeEncodeError error".split()
)
"""Errors that Python raises for mistakes in the code at hand, and that a compiler may raise on
purpose as well; "error" is that of struct.
"""
NEVER_MEANT = frozenset(
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
"""Messages of C++'s standard library: nobody meant them as an answer."""
_IMPOSSIBLE = re.compile(
    r"\binternal (?:\w+ )?error\b|\bunreachable\b|\bnot reach(?:ed|able)? here\b"
    r"|\bshould (?:never|not) (?:happen|be reached|reach|get here|be here)"
    r"|\bthis is (?:likely )?a bug\b|\bassert(?:ion)?\b.{0,80}\bfailed\b|\bassertion_?error\b",
    re.IGNORECASE,
)
"""Ordinary English for events that the author thought impossible."""
_OF_PYTHON = re.compile(
    r"\bunsupported operand type|\bnot supported between instances of\b"
    r"|\bunsupported (?:format (?:string|character)|pickle protocol)"
    r"|\bunexpected keyword argument\b"
)
"""Texts of Python's own TypeErrors."""
_FRAME = re.compile(r'^  File "([^"]*)", line \d+, in .*\n(?:    (.*))?', re.MULTILINE)
NATIVE = (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".pyx", ".rs")


def accidental(error_type: str, text: str, traceback: str) -> bool:
    """Whether an exception was not raised on purpose, by its class, its words or its last line."""
    name = error_type.rpartition(".")[2]
    if impossible(error_type, text) or _OF_PYTHON.search(text):
        return True
    file, line = innermost(traceback)
    here = bool(file) and not file.endswith(NATIVE)
    return name in SLIPS and here and not line.startswith("raise")


def impossible(error_type: str, text: str) -> bool:
    """Whether a class or text says that something happened which its author thought impossible."""
    name = error_type.rpartition(".")[2]
    if name in NEVER_MEANT or _NAMED.search(name):
        return True
    return bool(_STANDARD.search(text) or _IMPOSSIBLE.search(text))


def slip(error_type: str) -> bool:
    """Whether Python raises errors of a class for mistakes in the code at hand: the innermost line
    is then their place. What native code raises ends where that is called.
    """
    return error_type.rpartition(".")[2] in SLIPS | NEVER_MEANT


def innermost(traceback: str) -> tuple[str, str]:
    """File and source line of the innermost frame of the error that ended it; "" if unknown."""
    frames = _FRAME.findall(traceback)
    return (frames[-1][0], (frames[-1][1] or "").strip()) if frames else ("", "")
