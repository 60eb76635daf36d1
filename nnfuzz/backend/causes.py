"""The causes that a message or traceback chains, from the outermost to the innermost.

Every language links an error to the one behind it in words of its own: "Caused by:" of Rust and
Java, `panicked at` with the reason behind it, "panic:" of Go, `terminate called after throwing`
with `what():` of C++, "The above exception was the direct cause" of Python, where the cause comes
first.

A cause is a refusal or an accident. A refusal is a compiler's statement that it does not implement
something: no bug. A failure by accident is a bug whatever its words are: a slip of Python's
("unsupported operand type(s)"), an assertion, an error that calls itself internal. The rules are
about programming languages and ordinary English; where a compiler speaks otherwise, its adapter
says so (`Backend.complaint`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nnfuzz.backend.backtrace import split_frames

DIRECT = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_TRACEBACK = "Traceback (most recent call last):"
_TYPED = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)(?:: (.*)|:?\s*)$")
_QUALIFIED = re.compile(
    r'(?:Exception in thread "[^"]*" |Caused by: |\S+\.js:\d+ (?=\w+Error: ))?'
    r"((?:[a-z_][\w$]*\.)+[A-Z][\w$]*|[A-Z]\w*(?:Error|Exception))(?:: (.*))?$"
)
"""The class that a runtime puts in front of a message with a backtrace."""
_FILE = r"(?:[^\s:]:)?(?:\S*[/\\])?{}[\w.-]+:\d+)(?::\d+)?"
_PANIC = re.compile(
    rf"\bpanicked at (?:'(?P<old>.*)', {_FILE.format('(?P<there>')}$"
    rf"|{_FILE.format('(?P<place>')}:?$)"
)
"""place, there: file and line, without folders."""
_THROWN = re.compile(r"terminate called after throwing an instance of '([^']+)'")
_WHAT = re.compile(r"\s*what\(\):\s*(.*)")
_GO = re.compile(r"(?:panic|fatal error): (.*)$")
_FATAL = re.compile(r"F\d{4} [\d:.]+ +\d+ (\S+):\d+\] (.*)$")
"""The log of several C++ libraries: a letter for the level, month and day."""
_CAUSED = re.compile(r"\s*caused by:\s*$", re.IGNORECASE)
_NUMBERED = re.compile(r"\s*\d+:\s+")
_UNWRAPPED = re.compile(r"called `\w+::\w+\(\)` on an? `\w+` value: (.*)$", re.DOTALL)
_QUOTED = re.compile(r'(?:\(|: )"((?:[^"\\]|\\.)*)"')
_FIELDS = re.compile(r"\b([A-Z]\w*) \{ [a-z_]\w*: .*\}")
_ARRAY = re.compile(
    r"\[[^a-zA-Z]*\](?=, shape=\[), shape=\[.*?\], strides=\[.*?\], layout=\w+ \(\w+\)"
    r"(?:, (?:const|dynamic) ndim=\d+)?"
)
"""An array as Rust's ndarray prints it, with its elements."""
_ENDS = re.compile(r"\s*$|note: |Aborted\b|.*\bpanicked at |terminate called |exit status \d")
_LEVELS = r"(?:\[?[\d:.,/TZ -]{5,}\]?[ -]*)?(?:\d+ - )?[\[(]?"
_REMARK = re.compile(
    rf"\s*{_LEVELS}(?:(?:TRACE|DEBUG|VERBOSE|INFO|NOTICE|WARN|WARNING)\b"
    r"|(?i:warning|info|debug)\]?:)|[IWDV] (?:\w+:|[A-Z])"
)
"""A line of a log that is no error."""
_ERROR_LEVEL = re.compile(
    rf"^(?:\s*{_LEVELS}(?:ERROR|FATAL|CRITICAL)\b(?=[\]):]| - )[\]):]*(?: - )?\s*"
    r"|E (?:\w+: )?(?=[A-Z ]))"
)
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
MOST_REASON = 4
"""Lines of a reason behind its announcement."""


@dataclass(frozen=True)
class ChainedError:
    """One error of a chain. type: the class of the exception, "" if unknown. traceback: Python's,
    which ends where it was raised. place: file and line of a panic, file of a fatal log.
    """

    text: str
    type: str = ""
    traceback: str = ""
    place: str = ""

    def __bool__(self) -> bool:
        return bool(self.text or self.type)


def chain(error_type: str, message: str, traceback: str) -> list[ChainedError]:
    """The causes of an exception, the outermost first; at least one."""
    *inner, own = traceback.split(DIRECT)
    causes = causes_of(message, error_type, own.rpartition(_CONTEXT)[2])
    return causes + _chained(inner)


def causes_of(text: str, error_type: str = "", traceback: str = "") -> list[ChainedError]:
    """The causes that one text chains, without backtraces and remarks of a log."""
    text = "\n".join(_without_remarks(_ESCAPE.sub("", text).splitlines()))
    if _TRACEBACK in text and any(raised := _chained(text.split(DIRECT))):
        return [replace(cause, type=cause.type or error_type) for cause in raised if cause]
    parts = split_frames(text)
    causes = (
        _announced(parts.lines) or _listed(parts.lines) or [ChainedError("\n".join(parts.lines))]
    )
    if parts.functions or len(causes) > 1:
        causes = [_without_class(cause) for cause in causes]
    return [
        replace(c, text=_undumped(c.text), type=c.type or error_type, traceback=traceback)
        for c in causes
    ]


def _chained(sections: Sequence[str]) -> list[ChainedError]:
    """The exceptions of Python's tracebacks, which stand in the opposite order."""
    return [_raised(section) for section in reversed(sections)]


def _raised(section: str) -> ChainedError:
    """The exception at the end of one of Python's tracebacks."""
    own = section.rpartition(_CONTEXT)[2].rpartition(_TRACEBACK)[2]
    text = "\n".join(line for line in split_frames(own).lines if line.strip())
    first, _, more = text.partition("\n")
    match = _TYPED.match(first)
    if match is None:
        return ChainedError(text, "", own)
    return ChainedError("\n".join(filter(None, (match[2], more))), match[1], own)


def announced(text: str) -> ChainedError | None:
    """The reason that a dying process's runtime prints; None if it prints none."""
    lines = split_frames(_ESCAPE.sub("", text)).lines
    return next((replace(c, text=_undumped(c.text)) for c in _announced(lines)), None)


def _announced(lines: Sequence[str]) -> list[ChainedError]:
    """The reason of the first panic or uncaught exception: later ones follow from it."""
    for i, line in enumerate(lines):
        if (cause := _announcement(line, lines[i + 1 :])) and cause.text.strip():
            return [cause]
    return []


def _announcement(line: str, behind: Sequence[str]) -> ChainedError | None:
    if panic := _PANIC.search(line):
        text = panic["old"] or "\n".join(_reason(behind))
        return ChainedError(text, place=panic["there"] or panic["place"])
    if thrown := _THROWN.search(line):
        what = _WHAT.match(behind[0]) if behind else None
        text = "\n".join([what[1], *_reason(behind[1:])]) if what else line.strip()
        return ChainedError(text, thrown[1])
    if stopped := _GO.match(line):
        return ChainedError(stopped[1])
    if fatal := _FATAL.match(line):
        return ChainedError("\n".join([fatal[2], *_reason(behind)]), place=fatal[1])
    return None


def _listed(lines: Sequence[str]) -> list[ChainedError]:
    """The parts between "Caused by:": one statement per part, or per number of a part behind it."""
    parts: list[list[str]] = [[]]
    listing = False
    for line in lines:
        if _CAUSED.match(line):
            listing = True
            parts.append([])
        elif line.startswith("Caused by: ") or (listing and _NUMBERED.match(line)):
            parts.append([line if line.startswith("Caused by") else _NUMBERED.sub("", line, 1)])
        else:
            parts[-1].append(line)
    return [
        ChainedError("\n".join(part).strip())
        for part in parts
        if any(line.strip() for line in part)
    ]


def _reason(lines: Sequence[str]) -> Iterator[str]:
    """The lines that belong to an announcement in front of them."""
    for line in lines[:MOST_REASON]:
        if _ENDS.match(line):
            return
        yield line.strip()


def _undumped(text: str) -> str:
    """Without the fields of data structures and the elements of arrays that Rust prints."""
    return _FIELDS.sub(r"\1", _ARRAY.sub("[...]", _unwrapped(text.strip("\n"))))


def _unwrapped(text: str) -> str:
    """The error that was unwrapped, if it has words; its text, if it was printed as data."""
    match = _UNWRAPPED.match(text)
    inner = match[1] if match else text
    quoted = [_unescaped(text) for text in _QUOTED.findall(inner) if len(text.split()) > 1]
    if quoted and re.match(r"\w+(?: \{|\()", inner):
        return quoted[0]
    return inner if len(inner.split()) > 1 else text


def _unescaped(text: str) -> str:
    return text.replace('\\"', '"').replace("\\n", "\n")


def _without_class(cause: ChainedError) -> ChainedError:
    first, mark, more = cause.text.partition("\n")
    match = _QUALIFIED.match(first.strip())
    if match is None:
        return cause
    return replace(cause, type=match[1], text=(match[2] or match[1]) + mark + more)


def _without_remarks(lines: Sequence[str]) -> list[str]:
    """A log without the lines of lesser levels, and without the level of an error."""
    kept = [_ERROR_LEVEL.sub("", line) for line in lines if not _REMARK.match(line)]
    return kept if any(line.strip() for line in kept) else list(lines)


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
    r"|\b(?:not|n't) (?:exists? or |an? )?registered\b"
    # what an older ONNX says of a form that came later
    r"|\b(?:in|out)put (?:size|count) \d+ (?:is )?not in range\b"
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
    rf"|\bunknown (?:(?:data|datum|element|tensor|scalar) ?)?type:? ['\"]?{_DTYPE}\b"
    # pybind11, nanobind and PyO3, of an argument of another type than they take
    r"|\bincompatible (?:function|constructor) arguments\b|'\w+' object cannot be converted to '",
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
    "StopIteration TypeError UnicodeDecodeError UnicodeEncodeError struct.error".split()
)
"""Errors that Python raises for mistakes in the code at hand, and that a compiler may raise on
purpose as well: a library's own class of such a name has its module in front.
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
    r"\bunreachable\b|\bnot reach(?:ed|able)? here\b"
    r"|\bshould (?:never|not) (?:happen|be reached|reach|get here|be here)"
    r"|\bthis is (?:likely )?a bug\b|\bassert(?:ion)?\b.{0,80}\bfailed\b|\bassertion_?error\b",
    re.IGNORECASE,
)
"""Ordinary English for events that the author thought impossible."""
_INTERNAL = re.compile(r"\binternal (?:\w+ )?error\b", re.IGNORECASE)
"""A label in front of whatever was raised inside."""
_OF_PYTHON = re.compile(
    r"\bunsupported operand type|\bnot supported between instances of\b|' object does not support "
    r"|\bunsupported (?:format (?:string|character)|pickle protocol)"
    r"|\bunexpected keyword argument\b"
)
"""Texts of Python's own TypeErrors."""
FRAME = re.compile(r'^  File "([^"]*)", line (\d+), in .*\n?(?:    (.*))?', re.MULTILINE)
NATIVE = (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".pyx", ".rs")


def accidental(error_type: str, text: str, traceback: str) -> bool:
    """Whether an exception was not raised on purpose, by its class, its words or its last line.

    What native code raises ends at the line that calls it, as a slip there does: only its words
    show that it states a limit.
    """
    if impossible(error_type, text) or _OF_PYTHON.search(text):
        return True
    file, line = innermost(traceback)
    here = bool(file) and not file.endswith(NATIVE)
    raised = line.startswith("raise") or refusing_lines(text.splitlines())
    return error_type in SLIPS and here and not raised


def impossible(error_type: str, text: str) -> bool:
    """Whether a class or text says that something happened which its author thought impossible. An
    internal error that states a limit in its last clause is none.
    """
    if error_type in _NEVER_MEANT or _NAMED.search(error_type.rpartition(".")[2]):
        return True
    if _STANDARD.search(text) or _IMPOSSIBLE.search(text):
        return True
    labelled = (line for line in text.splitlines() if _INTERNAL.search(line))
    return any(not refusing_lines([line.rpartition(": ")[2]]) for line in labelled)


def states_limit(text: str) -> bool:
    """Whether a text refuses something, and is none of Python's own."""
    return bool(refusing_lines(text.splitlines())) and not _OF_PYTHON.search(text)


def slip(error_type: str) -> bool:
    """Whether Python raises errors of a class for mistakes in the code at hand: the innermost line
    is then their place. What native code raises ends where that is called.
    """
    return error_type in SLIPS | _NEVER_MEANT


def innermost(traceback: str) -> tuple[str, str]:
    """File and source line of the innermost frame of the error that ended it; "" if unknown."""
    file, _, line = [("", "", ""), *FRAME.findall(traceback)][-1]
    return file, line.strip()
