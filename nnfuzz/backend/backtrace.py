"""Backtraces in a text, whatever runtime has printed them: their lines are functions, and no
statements.

Frames are known by their form (a number and an address, `at f (file:1)`, `lib.so(f+0x1) [0x2]`, a
line of Python's); behind a headline such as "Stack backtrace:", "goroutine 1 [running]:" or
"Traceback (most recent call last):" indented and numbered lines of any form are frames as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nnfuzz.backend.normalise import normalise

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
