"""Whether a compiler's error is a refusal, or an accident.

A refusal is its statement that it does not implement something: no bug. A failure by accident is a
bug whatever its words are: a slip of Python's ("unsupported operand type(s)"), an assertion, an
error that calls itself internal. The rules are about programming languages and ordinary English;
where a compiler speaks otherwise, its adapter says so (`Backend.complaint`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nnfuzz.backend.causes import ChainedError

_CLASS = re.compile(r"Unsupported|Not_?(?:Yet)?(?:Supported|Implemented)|Unimplemented")
_STREAMS = ("io.UnsupportedOperation",)
"""Raised for streams that are no files."""
_BE = r"(?:is|are|was|were|be|been)"
_DTYPE = r"(?:u?int|b?float|bool|string|complex|bf|fp|[fiu])\d*(?:_?e\dm\d\w*)?"
_NOT = r"(?:not(?: (?:yet|currently|fully|directly))?|never)"
_WORDS = re.compile(
    # unsupported, UNSUPPORTED_NODE, not yet implemented, NotSupportedError, "Not support: Not"
    rf"\b\w*?(?:un|not_?(?:yet_?)?|{_NOT} (?:\w+ or )?)"
    r"(?:supported|implemented|support|implement)\w*"
    r"|\b(?:does|do|did|can|could|will)(?: ?not|n't)(?: (?:yet|currently|fully|directly))?"
    r" (?:support|implement)\b"
    rf"|\bonly (?:supports?|implements?)\b|\bsupports? only\b"
    r"|\bonly\b[^.;:]{0,60}\b(?:supported|implemented)\b"
    rf"|\b{_BE} only (?:supported|implemented)\b"
    r"|\b(?:supported|implemented)\b[^.;:]{0,60}\bonly\b"
    r"|\b(?:no|not? find an?|didn't find(?: an?)?) (?:\w+ )?(?:conversion|implementation|converter"
    r"|kernel|lowering|translation|handler|op)\b(?! name)"
    r"|\bno (?:registered|known) \S+ ?(?:\w*kernel|op|operator|implementation|converter)?\b"
    r"|\b(?:un(?:known|registered|recognized|recognised|handled)) "
    r"(?:onnx )?(?:op|operator|operation|layer|attribute)s?\b"
    r"|\b(?:not|n't) (?:exists? or )?registered\b"
    r"|\bcan(?: ?not|'t) resolve (?:op|operator|operation|layer)\b"
    r"|\b(?:conversion|implementation|converter|kernel|lowering) (?:is |was )?not found\b"
    r"|\bfailed to legalize\b"
    # ONNX lets inputs be computed: a compiler that needs a constant lacks the rest
    rf"|\b(?:must be|needs to be|should be|requires?|expects?|{_BE} not|isn't|aren't) (?:an? )?"
    r"(?:compile[- ]time )?(?:const(?:ant)?s?|initializers?)"
    r"(?= *(?:$|[.,;:)]|but\b|input|tensor|\w+ *(?:$|[.,;:)])))"
    r"|\bno support\b|\blimitations?:|\bknown limitation\b"
    r"|\bonly accepts?\b|\baccept(?:s|ing)? only\b"
    # and not "has not been initialised yet", which is a state that nobody has foreseen
    r"|(?:\bnot|n't) (?:handled|covered|part of [^.;:]{1,20})\b[^.;:]{0,20} yet\b"
    r"|\b(?:do not|don't|does not|doesn't) know how to (?:convert|import|lower|translate)\b"
    r"|\b(?:feature|op|operator)\b[^.;:]{0,40}\bnot enabled\b"
    rf"|\bunknown (?:(?:data|datum|element|tensor|scalar) ?)?type:? ['\"]?{_DTYPE}\b",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"\bfall(?:s|ing)? ?back\b|\bfallback\b|\bwill be (?:ignored|skipped|interpreted|used)\b"
    r"|\bignor(?:ed|ing)\b|\bskipp(?:ed|ing)\b",
    re.IGNORECASE,
)
"""Words on a substitute for an unsupported feature: a remark, and no reason of a failure."""


def refuses(cause: ChainedError, bases: Iterable[str], statement: Iterable[str]) -> bool:
    """Whether an exception is a refusal, by its class or else by its words.

    bases: classes that it derives from. statement: its lines, without dumps.
    """
    error_type = cause.type
    if accidental(error_type, cause.text, cause.traceback):
        return False
    names = (error_type.rpartition(".")[2], *bases)
    if error_type not in _STREAMS and any(_CLASS.search(name) for name in names):
        return True
    return bool(refusing_lines(statement))


def refusing_lines(lines: Iterable[str]) -> list[str]:
    """The lines that call something unsupported, without those about a substitute."""
    return [line for line in lines if _WORDS.search(line) and not _GOES_ON.search(line)]


SLIPS = frozenset(
    "AttributeError BufferError IndexError KeyError LookupError NameError OverflowError "
    "StopIteration TypeError UnicodeDecodeError UnicodeEncodeError error".split()
)
"""Errors that Python raises for mistakes in the code at hand, and that a compiler may raise on
purpose as well; "error" is that of struct.
"""
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
    if name in _NEVER_MEANT or _NAMED.search(name):
        return True
    return bool(_STANDARD.search(text) or _IMPOSSIBLE.search(text))


def slip(error_type: str) -> bool:
    """Whether Python raises errors of a class for mistakes in the code at hand: the innermost line
    is then their place. What native code raises ends where that is called.
    """
    return error_type.rpartition(".")[2] in SLIPS | _NEVER_MEANT


def innermost(traceback: str) -> tuple[str, str]:
    """File and source line of the innermost frame of the error that ended it; "" if unknown."""
    frames = _FRAME.findall(traceback)
    return (frames[-1][0], (frames[-1][1] or "").strip()) if frames else ("", "")
