"""Backtraces in a text, whatever runtime has printed them: their lines are functions, and no
statements.

Frames are known by their form (a number and an address, `at f (file:1)`, `lib.so(f+0x1) [0x2]`, a
line of Python's); behind a headline such as "Stack backtrace:", "goroutine 1 [running]:" or
"Traceback (most recent call last):" indented and numbered lines of any form are frames as well.

`normalise` turns error text into a form that all occurrences of one failure share in all models.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

MAX_CHARACTERS = 500
"""The longest normalised text: later characters are mostly a dump of the module."""

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.]+|\[\d\d:\d\d:\d\d\]")
_ADDRESS = re.compile(r"\b0[xX][0-9a-fA-F]+\b")
_PATH = re.compile(
    r"(?:[A-Za-z]:)?(?:~|\.{1,2})?/(?:[\w.+@-]+/)+([\w.+@-]+?\.\w+)(?::\d+)*(?![\w/])"
)
_LINE = re.compile(r"\b([\w-]+\.(?:cc|cpp|cxx|c|h|hpp|cu|py|pyx|pxi|rs|mlir))(?::\d+)+")
_TEMPLATE = re.compile(r"(?<=\w)<(?!(?:name|shape|address)>)[^<>\n]*>")
_MODEL_NAME = re.compile(r"/[\w./]*_output_\d+|\bonnx::\w+|(?<![\w.])/\w+(?:[./]\w+)*")
_LABEL = re.compile(
    r"(\b(?:name|node|node name|inputs?|outputs?|parameter)\s*:?\s*)([\[(])[^\[\]()\n]*([\])])",
    re.IGNORECASE,
)
_SINGLE = re.compile(r"(?<!\w)'([^'\n]{0,120})'(?!\w)")
_DOUBLE = re.compile(r'"([^"\n]{0,120}|[^"\s]+)"')
_BACKTICK = re.compile(r"`([^`'\n]{0,120})[`']")
_TOKEN = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(
    r"(?<!\w)(?<!\d\.)[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[Nn]a[Nn]|[Ii]nf)(?!\w)"
)
_NO_RANK = re.compile(r"\b(ndim|rank) -1\b")
_SHAPE = re.compile(
    r"[\[({]\s*[N?][N.]*(?:\s*[,x]\s*[N?][N.]*)*\s*,?\s*[\])}]|\{\}|\[\]|(?<=\bshape )\(\)"
)
_LIST = re.compile(r"(?<![\w.<])N(?:\s*,\s*N)+(?![\w.])")
"""A shape or an index without brackets, of any rank."""
_NAMES = re.compile(r"<name>(?:\s*,\s*<name>)+")
_DTYPE = re.compile(
    r"(?:u?int(?:2|4|8|16|32|64)|b?float(?:16|32|64)?|float[48]_?e\w*|double|half|bool|string"
    r"|complex(?:64|128)|[fiu](?:8|16|32|64)|tensor)(?:x\d+)?(?:_t)?"
    r"|[FIU](?:8|16|32|64)|BF16|Bool|U?Int(?:8|16|32|64)|(?:[Bb]f|F)loat(?:16|32|64)"
)
_SHAPE_OF = re.compile(rf"(?<![\w.<])N\s*,\s*(?=(?:{_DTYPE.pattern})(?!\w))")
"""The only dimension of a shape that is followed by a dtype."""
_KEPT = re.compile(
    r"[A-Z][A-Za-z]*(?:[1-3]d)?|\w+(?:\.\w+)+|[a-z]+"  # operator types, intrinsics, key words
)
_DECLARED = re.compile(r"( )(?:<name>|[\w/.:]*)_\d+(?!\S)")
"""A numbered name behind a word, in quoted code."""
_WORD = re.compile(r"[a-z]{3,}")
"""A name that is a word of English as well: one only where it is quoted or given as a value."""
_COPY = r"(?:[_/.$]\w+)*"
"""The suffix of a name that compilers derive from another name. The text in front of it
stays; numbers in it do not count, since names of compilers end in numbers as well (impl_v13)."""
_NAMED = re.compile(r'\bname=(["\'])([^"\']+)\1')
_CALL = re.compile(r"\b[A-Za-z_]\w*(?:(?:\.\w+)+\(|\(\w+=)")
_DIGITS = re.compile(r"\d+")
_COMMENT = re.compile(r"\s# .*")


def normalise(text: str, names: Collection[str] = ()) -> str:
    """One line, at most MAX_CHARACTERS, in which parts that differ from model to model are
    replaced.

    Numbers, NaN and infinities become N, shapes <shape>, addresses <address>, quoted names and the
    given names of values <name>, with a compiler's suffix of them (InsertedCast_v10/duplicated
    becomes InsertedCast_<name>); directories, line numbers, arguments of calls and templates,
    comments and times go. Names of dtypes and of operators stay; a rank of -1 is unknown.
    Idempotent but for the cut.
    """
    text = _STAMP.sub("", _ESCAPE.sub("", text))
    text = without_arguments(_COMMENT.sub("", text))
    text = _LINE.sub(r"\1", _PATH.sub(r"\1", text))
    text = _NO_RANK.sub(r"unknown \1", _ADDRESS.sub("<address>", text))
    text = _without_templates(text)
    text = _without_names(text, names)
    text = _TOKEN.sub(_token, text)
    text = _LIST.sub("<shape>", _SHAPE.sub("<shape>", _NUMBER.sub("N", text)))
    text = _SHAPE_OF.sub("<shape>,", _NAMES.sub("<name>", text))
    return " ".join(text.split())[:MAX_CHARACTERS].rstrip()


def _without_names(text: str, names: Collection[str]) -> str:
    """Patterns hold only names that occur: models have thousands, messages hundreds of lines."""
    words = {name for name in names if name in text and _WORD.fullmatch(name)}
    if words:
        text = re.sub(rf"(?<=['\"`=])(?:{'|'.join(sorted(words))})(?!\w)", "<name>", text)
    names = {name for name in names if not (name.isdigit() or _WORD.fullmatch(name))}
    if known := sorted((name for name in names if name in text), key=lambda n: (-len(n), n)):
        known_names = "|".join(map(re.escape, known))
        text = re.sub(rf"(?<![\w.])(?<!::)(?:{known_names})(?!\.?\w)", "<name>", text)
    shape = _DIGITS.sub("0", text)
    similar = {_DIGITS.sub("0", name) for name in names if _DIGITS.search(name)}
    if numbered := sorted(re.escape(name) for name in similar if name in shape):
        numbers = "|".join(numbered).replace("0", r"\d+")
        text = re.sub(rf"(?<=\w[_/.$])(?:{numbers}){_COPY}(?!\w)", "<name>", text)
    text = _LABEL.sub(r"\1\2<name>\3", text)
    for pattern in (_SINGLE, _DOUBLE, _BACKTICK):
        text = pattern.sub(_quoted, text)
    return _MODEL_NAME.sub("<name>", text)


def _quoted(match: re.Match[str]) -> str:
    inside = _DECLARED.sub(r"\1<name>", match.group(1))
    if " " in inside or _DTYPE.fullmatch(inside) or re.fullmatch(r"tensor\(\w+\)", inside):
        return f"'{inside}'"
    if len(inside) > 1 and _KEPT.fullmatch(inside):
        return f"'{inside}'"
    return "<name>"


def _token(match: re.Match[str]) -> str:
    """Digits in identifiers go, unless they are part of a dtype or of a name such as conv2d."""
    token = match.group()
    if _DTYPE.fullmatch(token) or re.search(r"[A-Za-z][1-3][dD]\b", token):
        return token
    return re.sub(r"\d+", "N", token)


def _without_templates(text: str) -> str:
    while True:
        shorter = _TEMPLATE.sub("", text)
        if shorter == text:
            return text
        text = shorter


def without_arguments(text: str, calls: re.Pattern[str] = _CALL) -> str:
    """module.f(...), Type(key=value, ...) -> the name with "(...)", or with its own name="...".

    What stands there is a piece of the module, which differs from level to level. calls: the
    beginnings of what is shortened, up to the parenthesis.
    """
    done, position = [], 0
    while match := calls.search(text, position):
        opening = text.index("(", match.start())
        end = _closing(text, opening)
        named = _NAMED.search(text, opening, end)
        done += [text[position:opening], f" '{named.group(2)}'" if named else "(...)"]
        position = end
    return "".join([*done, text[position:]])


def _closing(text: str, opening: int) -> int:
    """Index after the parenthesis that closes the one at `opening`; the end if none does."""
    depth = 0
    for i in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


_HEADLINE = re.compile(
    r"\W*(?:[a-z]+ ){0,3}(?:stack ?(?:back)?trace|backtrace|call stack|stack dump|return stack)"
    r"(?: \([^)]*\)| without symbol names.*)?\W*$"
    r"|\W*traceback \(most recent call|goroutine \d+ \[|thread \d+\b.*\bcrashed\b",
    re.IGNORECASE,
)
_HEX = r"0x[0-9a-fA-F]+"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"\s*#\d+:?\s+(?:{_HEX}\s+)?(?:in\s+)?(?:function\s+)?(?P<f>.*)$",
        rf"\s*\d+:?\s+{_HEX}\s+(?:-\s+)?(?:in\s+)?(?P<f>\S.*)$",
        r"\s*\d+:\s+(?P<f>(?:<|_ZN|[A-Za-z_~][\w~]*(?:<[^\n]*>)?(?:::|\()).*)$",
        rf"\s*\d+\s{{2,}}(?P<image>\S.*?)\s+{_HEX}\s+(?P<f>\S.*)$",
        rf"\s*(?:#?\d+:?\s+)?[^\s(]+(?:\((?P<f>[^()+]*)(?:\+{_HEX})?\))?\s*\[{_HEX}\]$",
        r"\s*at (?:async |new )?(?P<f>[\w.$<>/\[\]:]+) ?\([^()]*\)$",
        r"\s+\S+\.go:\d+(?: \+0x[0-9a-f]+)?$|created by \S+|exit status \d+$",
        r"\s*at \S+(?::\d+)+$|\s+at \S+$|\s*\.\.\. \d+ more$",
    )
)
_SOURCE = re.compile(r'\s*File "[^"]*", line \d+')
_INSIDE = tuple(
    re.compile(form)
    for form in (
        r"(?P<f>[\w./@~-]+\.[\w.()*\[\]]+\((?:0x|\{|\.\.\.|\)|[\w, ]*\)).*)$",
        r"\s*\d+:\s+(?P<f>.*)$",
        r"\s+(?P<f>[\w~:]+(?:<.*>)?(?:\[abi:\w+\])?\(.*)$",
        r"\s+\S.*$|\S+:\d+$|\d+\.\s",
    )
)
"""Frames only behind a headline."""
_DUMPED = re.compile(r",?\s*backtrace: Backtrace \[(.*)\](?=\s*\}|\s*$)")
_DUMPED_FUNCTION = re.compile(r'\bfn: "((?:[^"\\]|\\.)*)"')
_PLACE = re.compile(
    rf"\s*\((?:[^()\s]*\+{_HEX}|BuildId[^()]*|[^()\s]+:\d+(?::\d+)?)\)|\s(?:at )?\S+:\d+(?::\d+)?$"
    rf"|\s*\+(?:{_HEX}| \d+)(?:\s*\[{_HEX}\])?$|\[abi:\w+\]|\s\S+/\S+\.\w+$"
)
"""Behind a function: its module, file, offset."""
_NOISE = re.compile(r"::h[0-9a-f]{16}$|(?:::\{\{closure\}\})+$|::\{[^{}]*\}|::<[^<>]*>(?=::)")
_GENERIC = re.compile(r"(?<=[\w:])<[^<>]*>|(?<=.)::<[^<>]*>|::\{[^{}]*\}")
_SELF = re.compile(r"<+(?:&(?:mut )?)?(?P<type>\w+(?:::\w+)+)(?: as [^<>]*)?>+::(?P<method>[\w:]+)")
_GO = re.compile(r"(?:[\w.@~-]+/)+[\w-]+\.|\w+\.\(\*")


@dataclass(frozen=True)
class Backtrace:
    """A text in two parts. lines: without frames. functions: those of frames, innermost first."""

    lines: tuple[str, ...]
    functions: tuple[str, ...]


def split_frames(text: str) -> Backtrace:
    """Takes the frames of all runtimes out of a text; frames without a name only go."""
    reader = _Reader()
    for line in text.splitlines():
        reader.take(line)
    frames = [frame for group in reversed(reader.groups) for frame in group]
    names = [name for _, name in frames]
    return Backtrace(tuple(reader.lines), tuple(names[::-1] if _descending(frames) else names))


@dataclass
class _Reader:
    """The text that has been read so far. groups: lines and functions of frames, one group per
    cause, the innermost cause last. inside: behind a headline. quoted: behind a line of Python's
    frames.
    """

    lines: list[str] = field(default_factory=list)
    groups: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    inside: bool = False
    quoted: bool = False

    def take(self, line: str) -> None:
        if line.startswith("Caused by: "):
            self.groups.append([])
        line = self._undumped(line)
        source = bool(_SOURCE.match(line))
        quotation = self.quoted and line.startswith("    ")
        self.quoted = source or quotation
        if _HEADLINE.match(line):
            self.inside = True
        elif not source and not self._is_frame(line) and not quotation:
            self.inside = False
            self.lines.append(line)

    def _is_frame(self, line: str) -> bool:
        name = _name(line, self.inside)
        if name:
            self.groups[-1].append((line, name))
        return name is not None

    def _undumped(self, line: str) -> str:
        """Without frames in a printed data structure of Rust's."""
        for dump in _DUMPED.findall(line):
            self.groups[-1] += [
                ("", function_name(name)) for name in _DUMPED_FUNCTION.findall(dump)
            ]
        return _DUMPED.sub("", line)


def function_name(signature: str) -> str:
    """The qualified name in a signature of C++, Rust, Go, Java, Swift or Python: no result,
    template, arguments, file or address.
    """
    text = signature.strip()
    if text[:2] in ("+[", "-["):
        return text[: text.rfind("]") + 1]
    while (shorter := _NOISE.sub("", _PLACE.sub("", text))) != text:
        text = shorter
    text = _demangled(text)
    if _GO.match(text):
        return re.sub(r"\((?!\*).*$", "", text).rpartition("/")[2]
    if text.startswith("<"):
        return _method(text.partition("(")[0])
    text = text.replace("(anonymous namespace)", "anonymous")
    text = normalise(text).replace("operator()", "operator-call")
    text = re.sub(r"\s*\(.*$", "", text)
    return text.rsplit(" ", 1)[-1].strip("*&") if text else ""


def _method(text: str) -> str:
    """Rust's "<a::T<X> as Trait>::run" as "a::T::run"; unchanged where the type has no path."""
    plain = text
    while (shorter := _GENERIC.sub("", plain)) != plain:
        plain = shorter
    found = _SELF.fullmatch(plain)
    return f"{found['type']}::{found['method']}" if found else text


def _name(line: str, inside: bool) -> str | None:
    """The function of a frame, "" if the frame has none; None if the line is no frame."""
    for form in (*_FORMS, *(_INSIDE if inside else ())):
        if match := form.match(line):
            named = match.groupdict()
            image, signature = named.get("image") or "", named.get("f") or ""
            return "" if _SYSTEM.match(image) else function_name(signature)
    return None


_SYSTEM = re.compile(r"lib(?:system_|dispatch|swift|objc|c\b|c\+\+)|CoreFoundation\b|Foundation\b")
"""Shared objects whose frames are never a compiler's."""


def _descending(frames: list[tuple[str, str]]) -> bool:
    """Whether frames are numbered from the outermost, so that the last one has the number 0."""
    numbers = [int(m[1]) for line, _ in frames if (m := re.match(r"\s*#?(\d+):", line))]
    return len(numbers) > 1 and numbers == sorted(numbers, reverse=True)


def _demangled(name: str) -> str:
    """The path in a mangled name, such as _ZN2ns3fooEi: ns::foo; other names are returned as they
    are.
    """
    if not (start := re.match(r"_ZN[rVK]*", name)):
        return name
    parts, rest = [], name[start.end() :]
    while digits := re.match(r"\d+", rest):
        size = int(digits[0])
        parts.append(rest[digits.end() : digits.end() + size])
        rest = rest[digits.end() + size :]
    return _NOISE.sub("", "::".join(parts)) or name
