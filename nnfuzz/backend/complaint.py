"""A compiler's message about its failure, in terms that do not depend on the compiler.

A backend translates the words of its compiler (`Backend.complaint`); `read_complaint` is the reader
for those that do not. It takes the whole text into account: C++ exceptions put the innermost cause
last, behind the places that they were passed through; Python's chains put it first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum
from pathlib import PurePath

from nnfuzz.backend.backtrace import normalise, split_frames
from nnfuzz.backend.causes import (
    NATIVE,
    SLIPS,
    ChainedError,
    announced,
    chain,
    impossible,
    innermost,
    refuses,
    refusing_lines,
)
from nnfuzz.base.code_paths import CodePaths
from nnfuzz.sandbox.events import described_error


class Stage(StrEnum):
    """Where an outcome arose."""

    EXPORT = "export"
    TRANSFORM = "transform"
    IMPORT = "import"
    COMPILE = "compile"
    EXECUTE = "execute"
    COMPARE = "compare"


class ComplaintKind(StrEnum):
    """The kinds of complaints.

    dtype, shape, type (one of the two): a value differs from its declaration, or from what the
    compiler accepts. unsupported: its own statement that it does not implement something. error:
    anything else.
    """

    UNSUPPORTED = "unsupported"
    DTYPE = "dtype"
    SHAPE = "shape"
    TYPE = "type"
    ERROR = "error"


@dataclass(frozen=True)
class CompilerError:
    """An error as text, so that it can be read again when the rules have changed.

    error_type: qualified name of the exception's class; bases: plain names of all classes that it
    derives from. All fields are empty where a process died; then `captured` holds its last output.
    """

    stage: Stage
    error_type: str = ""
    message: str = ""
    traceback: str = ""
    captured: str = ""
    bases: tuple[str, ...] = ()


def described(error: BaseException, stage: Stage, adapter: Iterable[str] = ()) -> CompilerError:
    """An exception at a stage as text, without paths of this machine.

    adapter: its files, whose stack frames are none of the compiler's.
    """
    paths = CodePaths.here().with_adapter(adapter)
    texts = {name: paths.foreign(text) for name, text in described_error(error).items()}
    bases = tuple(cls.__name__ for cls in type(error).__mro__)
    return CompilerError(stage, **texts, bases=bases)


@dataclass(frozen=True)
class Complaint:
    """One reading of a compiler's error.

    subject: the statement of the cause, with names of values, numbers and addresses still in it.
    operators: of ONNX, those that the compiler says it failed at. dtypes: named as wrong or
    missing, by ONNX's names. location: where in the compiler's source ("file.cpp:function" or
    "file.cpp"), "" if it does not tell. others: where one message lists several complaints, the
    (subject, location) of those behind the first. varies: whether repetitions of the failure have
    shown words that change, which are not in the subject.
    """

    kind: ComplaintKind = ComplaintKind.ERROR
    subject: str = ""
    operators: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    location: str = ""
    others: tuple[tuple[str, str], ...] = ()
    varies: bool = False

    def of_kind(self, kind: ComplaintKind) -> Complaint:
        return replace(self, kind=kind)

    def steady(self, again: Iterable[Complaint]) -> Complaint:
        """The complaint without those words of its subject that other runs of the same failure
        lack, such as names of temporary files. It stays as it is where hardly any words would be
        left, since those runs failed in another way.
        """
        words = self.subject.split()
        own, kept = [normalise(word) for word in words], {*range(len(words))}
        for other in again:
            theirs = [normalise(word) for word in other.subject.split()]
            matching = SequenceMatcher(None, own, theirs, autojunk=False).get_matching_blocks()
            kept &= {at for block in matching for at in range(block.a, block.a + block.size)}
        if 2 * len(kept) < len(words) or len(kept) == len(words):
            return self
        return replace(self, subject=" ".join(words[at] for at in sorted(kept)), varies=True)

    def with_words(self, words: Collection[str]) -> Complaint:
        """The complaint with only those words of its subject that stay (Failure.steady_words)."""
        kept = [word for word in self.subject.split() if normalise(word) in words]
        return replace(self, subject=" ".join(kept), varies=True)


_CONTEXT = re.compile(
    r"^(?:exception (?:from|encountered|occurred)|during|while|when|summary\b|note:|hint:"
    r"|see |for more|to (?:facilitate|fix|enable|disable)|please|refer to|at |in file"
    r"|an? (?:\w+ )?(?:error|exception) (?:has |was )?(?:occurred|raised|encountered)\b"
    r"|\S+:\d+(?::\d+)?: (?:note|remark|warning):|call arguments|\W+$)",
    re.IGNORECASE,
)
"""Beginnings of lines that lead to a cause or follow it, in the messages of any C++ or Python."""
_LINK = re.compile(r"\bhttps?://\S+")
_DUMP = re.compile(
    r"^\s*[%@{}]|[{};]\s*$|^\s*\w+\s*(?::\s*[\w.\[\]]+\s*)?= \S+\(.*\)$|^\s*(?:left|right): "
    r"|^\s*[a-z_]+: (?:\"[^\"]*\"|[A-Z][A-Z\d_]*|[-\d.]+)$"
)
"""Lines of a module (assignments, braces) or of protobuf, and operands of Rust's assert_eq!."""
_PLACE = re.compile(r"([\w-]+\.(?:cc|cpp|cxx|c|h|hpp|cu|cuh|rs|mlir|pyx))(?::|\", line )\d+")
_CHECK = re.compile(r"^(?:internal )?(?:check|assert\w*)\b.*\b(?:failed|is false)\b", re.IGNORECASE)
_DTYPES = re.compile(r"\b(?:d(?:ata ?)?type|element[ _]type|precision)s?\b", re.IGNORECASE)
_UNLIKE = re.compile(
    r"\b(?:same|different|mismatch\w*|unexpected|expect\w*|invalid)\b[^.]*\b(?:d|data ?)?types?\b"
    r"|\btypes?\b[^.]*\b(?:mismatch\w*|differ\w*|expect\w*)\b",
    re.IGNORECASE,
)
_SIZES = re.compile(
    r"(?<!unknown )\b(?:shape|rank|ndim|dim|dimension)\b[^.]*\bN\b"
    r"|\baxis\b.*\bout of (?:range|bounds)\b|\bshape is [\w.]*<?shape\b"
    r"|\bexpected to be (?:a )?\dD\b",
    re.IGNORECASE,
)
"""A known shape; in a normalised text, where numbers are N."""
_LAST_WORDS = re.compile(
    r"assert|terminate called|what\(\)|malloc|free\(\)|double free|corrupt|fatal error"
    r"|check failed|sanitizer|runtime error:|panicked at|stack smashing|\b[A-Z]{2,} error\b",
    re.IGNORECASE,
)
_DEATH = re.compile(r"^(?:segmentation fault|bus error|illegal instruction)\b", re.IGNORECASE)
_SUMMARY = re.compile(r"^\W*summary\b", re.IGNORECASE)
_QUOTES_NODES = re.compile(r"\[\d+\]:\w|\) -> \(|^\[\w+\] ")
"""Operands with their types, results, a stage in brackets: parts of the model, not the fault."""
_DIAGNOSTIC = re.compile(
    r"^\S+\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|hip|cl|metal|o|rs)"
    r"(?:(?::\d+:\d+|\(\d+(?:,\d+)?\)): (?:fatal )?error(?: \w+)?: (?P<said>.+)"
    r"|:\(\S+\): (?P<linked>undefined .+))$"
)
"""What C and C++ compilers and linkers say of a source, with line and column."""
GENERATED = "generated code"
"""The location of a fault in code that the compiler under test has written, and that another
compiler refuses."""
FEWEST_WORDS = 3
"""The fewest words of a statement: fewer are a name or a value."""
MOST_LINES = 6
"""Statements that make the subject: a message with more is a list or a dump."""


def read_complaint(error: CompilerError) -> Complaint:
    """Reads an error of an unknown compiler, by the forms that messages of all compilers share.

    Of a chain the innermost cause counts. If one of the causes is a refusal, by its class or in the
    words of ordinary English (nnfuzz.backend.causes), the innermost such one counts, and the
    complaint is unsupported. Backtraces are left out.
    """
    if not error.error_type:
        return _dying(error.captured)
    causes = chain(error.error_type, error.message, error.traceback)
    refusing = _refusing(error, causes)
    cause = (refusing or causes)[-1]
    statements = [
        (stated_cause(part), _location(part) or cause.place) for part in _paragraphs(cause.text)
    ]
    (subject, location), *others = dict.fromkeys(statements)
    if refusing:
        subject = " ".join(refusing_lines(_stating(cause.text))) or subject
        kind = ComplaintKind.UNSUPPORTED
    else:
        kind = _kind(error, subject)
    if cause is not causes[0]:
        subject = subject or cause.type  # an assertion without words
    return Complaint(kind, subject, (), (), location, tuple(others))


def _refusing(error: CompilerError, causes: Sequence[ChainedError]) -> list[ChainedError]:
    """The causes that are refusals. An exporter may have written a model that the standard's
    checker does not know, so that its words do not count here.
    """
    words = error.stage is not Stage.EXPORT
    return [
        cause
        for cause in causes
        if refuses(
            cause,
            error.bases if cause is causes[0] else (),
            _stating(cause.text) if words else (),
        )
    ]


def _stating(text: str) -> list[str]:
    """The lines that state the first complaint of a text."""
    first = _paragraphs(text)[0]
    return [_innermost(line) for line in _stated(first)] or [stated_cause(first)]


def _paragraphs(message: str) -> list[str]:
    """The complaints that a message lists, one per paragraph; the whole if it is no list."""
    parts = [part.strip() for part in re.split(r"\n\s*\n", message)]
    listed = [part for part in parts if part and not _SUMMARY.match(part)]
    return [part for part in listed if _stated(part)] or [message]


def _diagnosed(message: str) -> str:
    """The first thing that another compiler says of generated code; "" if it says nothing."""
    found = filter(None, map(_DIAGNOSTIC.match, _lines(message)))
    return next((match["said"] or match["linked"] for match in found), "")


def stated_cause(message: str) -> str:
    """The statement of a message, in one line: lines that only lead to it, quote a module or point
    elsewhere are left out, unless nothing else is there.
    """
    if said := _diagnosed(message):
        return said
    lines = _lines(message)
    causes = _stated(message) or [line for line in lines if not _DUMP.search(line)][-1:]
    # How often a statement occurs, with other numbers perhaps, is chance.
    causes = [*{normalise(line): line for line in reversed(causes or lines[-1:])}.values()][::-1]
    causes = causes if len(causes) <= MOST_LINES else [*causes[:2], *causes[-2:]]
    return " ".join(map(_innermost, causes))


def _lines(text: str) -> list[str]:
    """The text without links and blank lines."""
    lines = (_LINK.sub("", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


def _stated(text: str) -> list[str]:
    """The lines that are neither context nor a dump. Those that quote the condition of a failed
    check are left out, unless there are no others.
    """
    plain = [line for line in _lines(text) if not _DUMP.search(line)]
    follows = [" " in line for line in plain[1:]] + [True]  # else it belongs to its announcement
    stated = [
        line
        for line, sentence in zip(plain, follows, strict=False)
        if not (
            _CONTEXT.match(line) or (line.endswith(":") and sentence and not refusing_lines([line]))
        )
    ]
    return [line for line in stated if not _CHECK.match(line)] or stated


def _innermost(line: str) -> str:
    """The part of a line behind the last dump of nodes and types in it; the whole line where it has
    no such dump, or too few words follow.
    """
    head, mark, rest = line.partition(": ")
    while mark:
        if _QUOTES_NODES.search(head) and len(re.findall(r"[A-Za-z]{2,}", rest)) >= FEWEST_WORDS:
            return _innermost(rest)
        further, mark, rest = rest.partition(": ")
        head += mark and f": {further}"
    return line


def first_statement(message: str) -> str:
    """The first line, and the next one where it only announces something: for compilers that put
    the cause first and a dump of the module behind it.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])


def _dying(captured: str) -> Complaint:
    """The reason that a dying process printed, else its first telling line, if there is one."""
    if reason := announced(captured):
        return Complaint(subject=stated_cause(reason.text), location=reason.place)
    lines = split_frames(captured).lines
    telling = (line for telling in (_LAST_WORDS, _DEATH) for line in lines if telling.search(line))
    return Complaint(subject=next(telling, "").strip())


def about_inputs(subject: str) -> ComplaintKind:
    """Whether an importer's statement is about dtypes, or about sizes that it thinks it knows."""
    text = normalise(subject)
    if _DTYPES.search(text):
        return ComplaintKind.DTYPE
    return ComplaintKind.SHAPE if _SIZES.search(text) else ComplaintKind.ERROR


def _kind(error: CompilerError, subject: str) -> ComplaintKind:
    if error.stage is Stage.IMPORT:
        return about_inputs(subject)
    unlike = error.error_type == "TypeError" or _UNLIKE.search(subject)
    return ComplaintKind.DTYPE if unlike else ComplaintKind.ERROR


def _location(message: str) -> str:
    """The last source file in a message: the innermost place of a chain of C++ exceptions."""
    if _diagnosed(message):
        return GENERATED
    places = _PLACE.findall(message)
    return places[-1] if places else ""


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
    package, name = error.error_type.rpartition(".")[0], error.error_type
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
