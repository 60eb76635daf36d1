"""Titles of findings: operators, then the cause, then where it shows, in one line for people.

No signature, no key and no hash depends on a title. The cause of an error is its statement, as a
maintainer would title it.
What compilers of all languages put around a statement goes: status codes and classes, the source
file and the signature of the function that raised, the condition of an assertion that has words,
the node at hand, advice. C++ puts the innermost cause last, so that whatever stands in front of the
last place in a source file leads to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from nnfuzz.backend.backtrace import function_name, split_frames, without_arguments
from nnfuzz.backend.causes import DIRECT, FRAME, NATIVE, chain, slip
from nnfuzz.base.code_paths import ADAPTER, LIBRARY
from nnfuzz.triage.mismatch import WrongOutput
from nnfuzz.triage.pattern import onnx_type, schema_defaults

if TYPE_CHECKING:
    import onnx


_PYTHON = re.compile(r'^\s*File "([^"]*)", line \d+,? in (.+)$')
_RUNTIMES = (
    r"_?_?libc_\w+|_?_?GI_\w+|_start|clone\d?|gsignal|raise|abort|killpg|pthread_\w+|__\w*|main"
    r"|start_thread|_nl_load_domain.*|mem(?:cpy|move|set|cmp)|strn?(?:len|cpy|cmp|cat|dup)|(?:m|c|re)alloc"
    r"|free",
    r"std::.*|__gnu_cxx::.*|operator (?:new|delete).*|operator\(\)|absl::.*|google::.*",
    r"<.*|(?:__rustc::)?rust_\w+|rustc\w*|(?:backtrace|anyhow|eyre|std_\w+|pyo3|tokio)::.*"
    r"|core::(?:panicking|result|option|ops|fmt|iter|slice|str|num|ptr|mem|array|intrinsics)::.*"
    r"|alloc::(?:alloc|boxed|collections|fmt|raw_vec|rc|slice|str|string|sync|vec)::.*",
    r"runtime\.\w.*|main\.main|reflect\..*|syscall\..*|panic",
    r"(?:java|javax|jdk|sun|scala|kotlin|android|dalvik|akka)[./].*|node:.*|eval|async",
    r"\$s.*|_?swift_\w+|_assertionFailure|_dispatch_\w+",
    r"_?Py\w*|cfunction_\w+|vectorcall\w*|method_\w+|slot_\w+|_run_code|_run_module_as_main"
    r"|gen_\w+|builtin_\w+|pymain_\w+|_ctypes_\w+|_call_function_pointer|ffi_\w+",
    r".*(?:Signal_?Handlers?|segfault_handler|Stack_?Trace|Backtrace)\w*",
    r"(?:.*[.:_])?(?:fatal\w*|assert(?:ion)?(?:_fail\w*)?|panic\w*|LogMessage\w*|Unimplemented)",
    r"(?:.*(?:::|\.))?(?:[Ee]rrors?|Exception|panicking|Log(?:Fatal|Message)|Status)(?:::|\.).*",
)
"""By language: libc, C++ and its libraries, Rust, Go, Java and JavaScript, Swift, Python; then what
reports a failure, by its name."""
_RUNTIME = re.compile("|".join(_RUNTIMES))
_FIRST = re.compile(r"most recent call first", re.IGNORECASE)


_RAISES = re.compile(r"assert\b|raise\b.*(?:['\"].* .*['\"]|\($)")
"""A line that has the words of its error, or whose next line has them: "raise error" has not."""


def python_frames(text: str) -> list[str]:
    """Frames of the innermost cause's traceback, outermost first, as "file.py:function".

    Those of Python's library are left out. C++ frames that a compiler adds to its tracebacks count.
    """
    _, _, last = text.partition(DIRECT)[0].rpartition("Traceback (most recent call last)")
    frames = filter(None, map(_PYTHON.match, (last or text).splitlines()))
    kept = [frame for frame in frames if not frame[1].startswith((ADAPTER, LIBRARY))]
    places = [f"{frame[1].rsplit('/', 1)[-1]}:{function_name(frame[2])}" for frame in kept]
    return places[::-1] if _FIRST.search(text) else places


def raising_line(error_type: str, message: str, traceback: str) -> str:
    """ "file.py:123", the line of source that raised the innermost cause of an error, or where that
    panicked; "" if unknown. No line of Python that only calls compiled code counts, nor one that
    raises what it was given, since all kinds of errors come from it; Python's own errors count.
    """
    cause = chain(error_type, message, traceback)[-1]
    frames = [own for own in FRAME.findall(cause.traceback) if not own[0].startswith(ADAPTER)]
    if cause.place or not frames:
        return cause.place if ":" in cause.place else ""
    file, number, line = frames[0 if _FIRST.search(cause.traceback) else -1]
    raised = file.endswith(NATIVE) or _RAISES.match(line.strip()) or slip(cause.type)
    return f"{file.rsplit('/', 1)[-1]}:{number}" if raised else ""


def native_frames(text: str) -> list[str]:
    """Functions of compiled code in a text, innermost first, without those of any runtime."""
    return [name for name in split_frames(text).functions if name and not _RUNTIME.fullmatch(name)]


def from_compiler(frames: list[str]) -> list[str]:
    """Native frames, innermost first, from the compiler's first one on: if a library that it calls
    refuses operands, the caller is at fault. Most frames are the compiler's, whose names begin with
    the same word.
    """
    words = [re.split("::|_", name)[0] if "::" in name else "" for name in frames]
    common = Counter(filter(None, words)).most_common(1)
    return frames[words.index(common[0][0]) :] if common and words[0] else frames


def is_native(frame: str) -> bool:
    """Whether a frame is one of compiled code, and not "file.py:function"."""
    return "::" in frame or ":" not in frame


MOST_CHARACTERS = 160
MOST_READ = 2000
"""Characters of a text that are read, at both of its ends; rules take time quadratic in them."""
FEW = 3
"""Words of a statement that says too little without the place where it was made."""
_STAMP = re.compile(r"\[?\b\d{4}-\d\d-\d\d[ T][\d:.,]+Z?\]?|\[\d\d:\d\d:\d\d(?:\.\d+)?\]")
_TEMPORARY = re.compile(r"(?<!\w)/(?:var/)?tmp/[^\s'\":,()<>|]*")
_PRINTED = re.compile(r"\b[A-Za-z_][\w.]*\((?=\w+=)")
"""The beginning of a data structure."""
_FILE = (
    r"(?:[A-Za-z]:)?(?:[\w.+@~-]*[/\\])*(?P<file>[\w.+-]+"
    r"\.(?:cc|cpp|cxx|c|cu|cuh|h|hh|hpp|inc|rs|pyx?|pxi|go|java|js|ts|td|mlir|swift|mm?))"
    r"\"?(?::\d+|,? line \d+)(?::\d+)?\b"
)
_PLACE = re.compile(rf"(?<![\w/\\])[\"(\[]?{_FILE}[)\]]?:? *")
_AT_PLACE = re.compile(
    rf"(?:[,;.] *(?:\w+ ){{0,2}})?(?: *(?:at|in|from|by))? *[\"(\[]?{_FILE}[)\]]?[.!:]*$"
)
_NAME = r"(?:[\w:~,{}]|\[\]|<(?:[^<>]|<[^<>]*>)*>)+"
_RETURNS = re.compile(
    rf"(?:(?:decltype\(auto\)|{_NAME}[*&]*) +)*?[*&]*(?P<f>{_NAME}(?:\(\)(?=\())?)\("
)
_TEMPLATE = re.compile(r"<[^<>]*>")
_TYPES = re.compile(r"^$|[&*]|::|\b(?:const|void|bool|int|float|double|size_type|auto|\w+_t)\b")
_QUALIFIERS = re.compile(r"(?: const| noexcept| \[(?:[^\[\]]|\[[^\]]*\])*\])*:? *")
_CALLER = re.compile(r"(?:in function )?(?P<f>[a-z_~][\w:~]*)(?:\(\))?: *", re.IGNORECASE)
_NAMED = re.compile(r"(?P<f>(?:[A-Z]+[a-z0-9]+){3,})(?:\(\))? +(?=\S+ \S)")
"""The function behind a place, with a colon, or of three words in one: "LoadModelFromFile"."""
_CONDITION = r"(?P<k>check|assert\w*|condition)"
_PARENTHESES = reduce(lambda inner, _: rf"\((?:[^()]|{inner})*\)", range(4), r"\([^()]*\)")
_CONDITIONS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_CONDITION} failed: (?P<c>.*), function (?P<f>[\w:~]+), file \S+, line \d+\.?$",
        rf"{_CONDITION} failed at {_FILE}: (?P<c>\S.*)$",
        rf"{_CONDITION} (?P<c>[`'\"].*[`'\"]) failed(?:[:.] *(?P<m>.*))?$",
        rf"{_CONDITION}(?: failed)?: (?P<c>.+?) ==> (?P<m>.+)$",
        rf"{_CONDITION} failed: (?P<c>.+?) \(.+? vs\.? .+?\) ?: *(?P<m>.+)$",
        rf"{_CONDITION} failed: (?P<c>{_PARENTHESES}) is false:? *(?P<m>.*)$",
        rf"{_CONDITION} failed: (?P<c>`[^`]*`)(?: \(.*\))?$",
        rf"{_CONDITION} failed: (?P<c>[^\s()]*{_PARENTHESES}\S*)(?: +(?P<m>[A-Z].*))?$",
        rf"{_CONDITION} (?P<c>\S.*?) failed[.:] *(?P<m>.*)$",
        r"^(?P<k>)(?P<c>(?:(?!\.\w+:\d).)*?[=<>&].*?) (?:was|is) false(?:[.:] *(?P<m>.+))?$",
    )
)
"""How libraries and languages print a condition (c) that does not hold, the words beside it (m) and
the function (f).
"""
_UNMET = re.compile(r"(?:check|assertion|condition) .* failed$")
_REASON = re.compile(r"&& *((?:\"[^\"]*\" *)+)[)'`]*$")
_LABEL = re.compile(r".*(?:\bmessage|_MESSAGE|(?<!\w)error|\bERR): +(?=\S+ \S)", re.IGNORECASE)
_CODE = re.compile(r".*\[\w+\] : \w+ : \w+ : |\d+ : \w+ : |.*\[\w+(?:Error|Exception)\]:? *")
_OPERANDS = re.compile(rf".*\) -> {_PARENTHESES} *,? *(?:error )?|\bloc{_PARENTHESES}: *", re.I)
"""The node or the location that a compiler prints in front of a statement on it."""
_TEXT = r"(?:(?:[^:'\"]|'[^']*'|\"[^\"]*\")*|[^:]*)"
_STAGES = (
    r"(?:load|pars|read|import|convert|compil|build|creat|run|initiali[sz]|infer|execut|prepar"
    r"|process|deseriali[sz]|translat|analy[sz]|evaluat)\w*"
)
_LEADING = (
    r"(?:an? |the )?(?:(?:unhandled|internal|fatal|runtime|unknown|uncaught) )*"
    r"(?:error|exception|failure|fail|fatal|panic)\b[^:,]*",
    r"(?:this is )?(?:an? )?invalid (?:argument\(?s?\)?|model|graph)",
    rf"(?:failed|failure|unable|could not|cannot|can't)(?: to)? {_STAGES}\b{_TEXT}",
    rf"(?:\w+ ){{0,3}}(?:{_STAGES}|inference|conversion)\b[^:]*\bfail(?:ed|ure)?",
    rf"(?:while|when|during)\b{_TEXT}|(?:node|layer|vertex) \S+|=*\d+=*(?:ERROR)?|\[\w+\]",
    r"(?-i:[A-Z]+(?:_[A-Z]+)+|INTERNAL|UNIMPLEMENTED|(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception))",
    r"\w+Sanitizer",
)
_LEADS = re.compile(
    rf"(?:(?:{'|'.join(_LEADING)})(?::(?!:)|\.(?= ))|error in \w+ \w+,) *", re.IGNORECASE
)
_BESIDE = re.compile(
    r",? *(?:with|of|and) name:? ?(['\"`]).*?\1| *\((?:node|layer|op) (['\"`])[^()]*\2\)"
    r"| in node \([^()]*\)| for ['\"`]\{\{.*$| on (?:unknown )?address 0x.*$| *\(core dumped\)$",
    re.IGNORECASE,
)
"""Names of nodes, printed modules and addresses in a statement."""
_AROUND = re.compile(r"^(?:[-*,;.\s]|:(?!:))+|[ .!:,]+$")
"""Empty parts at the ends of a statement."""
_TAIL = re.compile(r"(?<=\w) *[(\[](?:\W*\w+){0,2}\W*$")
"""A parenthesis of a word or two that is never closed."""
_ADVICE = re.compile(
    r"(?:please|see|to (?:fix|enable|disable|reproduce)|try|refer|consider|make sure|for more)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<!\b[A-Za-z]\.[A-Za-z])(?<!\bvs)(?<!\betc)[.!?] +(?=\S)")
_CHAIN = re.compile(r"(?<=[\w)\]>'\"]): | , |; ")


@dataclass
class Headline:
    """A statement, and the function or else the file that it is from; "" if it does not say."""

    statement: str
    place: str = ""

    @property
    def is_brief(self) -> bool:
        """Whether the statement says too little without a place."""
        return _words(self.statement) <= FEW or bool(_UNMET.match(self.statement))


def headline(text: str, names: Collection[str] = ()) -> Headline:
    """The statement of an error's text in one line of at most MOST_CHARACTERS; no word is cut.

    names: of the model's values, which are x, y, z in a title.
    """
    if len(text) > MOST_READ:
        head, tail = text[: MOST_READ // 2], text[-MOST_READ // 2 :]
        text = f"{head.rpartition(' ')[0] or head} ... {tail.partition(' ')[2] or tail}"
    text = _TEMPORARY.sub("TMP", _STAMP.sub("", text))
    made = Headline(" ".join(without_arguments(text, _PRINTED).split()))
    before = ""
    while made.statement != before:
        before = made.statement
        quote = before[:1]
        if quote in "'\"" and before.count(quote) == 2 and before.rstrip(".").endswith(quote):
            made.statement = before.rstrip(".")[1:-1] if _words(before) > 1 else before
        if not _condition(made):
            _peel(made)
        made.statement = _AROUND.sub("", _BESIDE.sub("", made.statement))
        opened, closed = (len(re.findall(b, made.statement)) for b in (r"[(\[]", r"[)\]]"))
        if made.statement.endswith(")") and opened < closed:
            made.statement = made.statement[:-1]
        if opened > closed:
            made.statement = _TAIL.sub("", made.statement)
    made.statement = _shortened(_lettered(made.statement, names))
    return made


def _lettered(text: str, names: Collection[str]) -> str:
    """The text with letters for names that are no words, in their order."""
    known = sorted((n for n in names if re.search(r"\d", n)), key=len, reverse=True)
    if not known:
        return text
    pattern = re.compile(rf"(?<![\w.:])(?:{'|'.join(map(re.escape, known))})(?!\.?\w)")
    found = dict.fromkeys(pattern.findall(text))
    letters = dict(zip(found, "xyzuvw"))
    return pattern.sub(lambda name: letters.get(name[0], name[0]), text)


def _words(text: str) -> int:
    return sum(bool(re.search(r"[A-Za-z]{2}", word)) for word in text.split())


def _condition(made: Headline) -> bool:
    """Makes the statement of a condition that does not hold of the words beside it, or else says
    that it does not; whether there is one.
    """
    matches = (form.search(made.statement) for form in _CONDITIONS)
    match = next(filter(None, matches), None)
    if match is None or made.statement == _failed(match):
        return False
    found, before = match.groupdict(), made.statement[: match.start()]
    _find_place(made, before)
    made.place = found.get("f") or made.place
    reason = _REASON.search(match["c"])
    words = "".join(reason[1].split('"')[1::2]) if reason else found.get("m")
    made.statement = words if words and _words(words) > 1 else _failed(match)
    return True


def _failed(match: re.Match[str]) -> str:
    kind = match["k"].lower().removesuffix("s")
    condition = match["c"].strip("`'\" ,")
    if re.fullmatch(_PARENTHESES, condition):
        condition = condition[1:-1]
    return f"{'assertion' if kind.startswith('assert') else kind or 'condition'} {condition} failed"


def _find_place(made: Headline, before: str) -> None:
    """Sets the place to that of the last source file in a text, or the function behind it."""
    places = list(_PLACE.finditer(before))
    if places:
        made.place = places[-1]["file"]
        made.place = _signature(before, places[-1].end())[0] or made.place


def _peel(made: Headline) -> None:
    """Takes off what leads to the statement, if a statement is left."""
    text = made.statement
    for around in (_OPERANDS, _LABEL, _CODE, _LEADS):
        match = around.match(text)
        if match and _words(text[match.end() :]) > 1:
            text = text[match.end() :]
    if trailing := _AT_PLACE.search(text):
        made.place = made.place or trailing["file"]
        text = text[: trailing.start()] or text
    for match in reversed(list(_PLACE.finditer(text))):
        rest = text[match.end() :]
        function, end = _signature(text, match.end())
        named = None if function else _CALLER.match(rest) or _NAMED.match(rest)
        if named and not _is_operator(named["f"]):
            function, end = named["f"], match.end() + named.end()
        if _words(text[end:]) > 1:
            made.place, text = function or match["file"], text[end:]
            break
    made.statement = text


def _signature(text: str, start: int) -> tuple[str, int]:
    """The function whose signature in C++ begins at `start`, without templates, and where that
    ends; "" and `start` if none begins there.
    """
    head = _RETURNS.match(text, start)
    parameters = head and re.compile(_PARENTHESES).match(text, head.end() - 1)
    if head is None or parameters is None or not _TYPES.search(parameters[0][1:-1]):
        return "", start
    function, behind = head["f"], _QUALIFIERS.match(text, parameters.end())
    while (shorter := _TEMPLATE.sub("", function)) != function:
        function = shorter
    return function, behind.end() if behind else parameters.end()


def _is_operator(name: str) -> bool:
    from onnx import defs

    return bool(defs.has(name))


def _shortened(text: str) -> str:
    """The sentences without advice; of a long text those, or else statements, that fit."""
    sentences = [s.rstrip(" .!") for s in _SENTENCE.split(text) if not _ADVICE.match(s)]
    text = ". ".join(sentences) or text
    if len(text) <= MOST_CHARACTERS:
        return text
    if _words(sentences[0]) > FEW and len(sentences[0]) <= MOST_CHARACTERS:
        return sentences[0]
    starts = [0, *(match.end() for match in _CHAIN.finditer(text))]
    last = next((text[at:] for at in starts if len(text) - at <= MOST_CHARACTERS), "")
    ends = [match.start() for match in _CHAIN.finditer(text) if match.start() <= MOST_CHARACTERS]
    if last or ends:
        return last or text[: ends[-1]]
    whole = text[:MOST_CHARACTERS].rpartition(" ")[0] or text[:MOST_CHARACTERS]
    return f"{(re.sub(r' *[(][^()]*$', '', whole) or whole).rstrip(' ,;:.')} ..."


MOST_OPERATORS, MOST_ATTRIBUTES, MOST_VALUE, MOST_PASSES = 4, 4, 40, 2
_WRONG = {
    "value": "wrong values",
    "nonfinite": "non-finite values",
    "missing": "an output is missing",
}
_PLUMBING = ("Constant",)
_DTYPES = ("to", "dtype", "output_dtype", "precision", "softmax_precision", "stash_type")
"""Attributes that hold a dtype as a number."""


def sentence(
    backend: str, cause: str, where: str = "", operators: str = "", passes: Sequence[str] = ()
) -> str:
    """The one form of all titles. operators: of the reduced model, see `operators_text`. passes:
    that are to blame; they come first.
    """
    accused = ", ".join([*passes[:MOST_PASSES], *(["..."] if passes[MOST_PASSES:] else [])])
    text = ": ".join(part for part in (backend, accused, operators, cause) if part)
    return f"{text} ({where})" if where else text


def wrong_in_words(kind: str, wrong: WrongOutput | None = None) -> str:
    """What is wrong with an output."""
    if wrong is not None and kind in ("shape", "dtype"):
        return f"wrong {kind}, {wrong.actual} for {wrong.expected}"
    return _WRONG.get(kind, f"wrong {kind}")


def only_at(call: int | None) -> str:
    """The words of a title for a result that is wrong at a call, and right if the program is called
    once; "" for other results. call: the number of the call, from 0; None for other results.
    """
    if call is None:
        return ""
    return f", only at call {call + 1}" if call else ", only once the program is called again"


def operators_text(model: bytes, written_from: Sequence[str] = ()) -> str:
    """The operators of a serialized ONNX model by their ONNX names, in order, each with the
    attributes that are not at their defaults: reduction could not switch these off. A dtype stands
    in front where it is not float32, which reduction would have taken; those of bodies follow their
    operator in parentheses.

    written_from: operators that the model was made from; they stand for a model of more than
    MOST_OPERATORS nodes. "" if the model cannot be read.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load_model_from_string(model)
    except DecodeError:
        return ""
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    nodes = [node for node in proto.graph.node if node.op_type not in _PLUMBING]
    dtype = _needed_dtype(proto.graph)
    if len(nodes) > MOST_OPERATORS >= len(written_from) > 0:
        types = {node.op_type for node in nodes}
        return dtype + " + ".join(onnx_type(name, types) or name for name in written_from)
    texts = [_node(node, opsets.get(node.domain, 1)) for node in nodes[:MOST_OPERATORS]]
    more = len(nodes) - len(texts)
    return dtype + " + ".join(texts) + (f" and {more} more" if more else "")


def _needed_dtype(graph: onnx.GraphProto) -> str:
    """The first dtype of a reduced graph's inputs, outputs and first operands with a blank, bool
    only if there is no other; "" if one of them is float32.
    """
    from onnx import TensorProto, helper

    types = [value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)]
    data = {node.input[0] for node in graph.node if node.input}
    types += [tensor.data_type for tensor in graph.initializer if tensor.name in data]
    known = [t for t in types if t not in (TensorProto.UNDEFINED, TensorProto.STRING)]
    if not known or TensorProto.FLOAT in known:
        return ""
    first = min(known, key=lambda t: t == TensorProto.BOOL)
    return f"{helper.tensor_dtype_to_np_dtype(first).name} "


def _node(node: onnx.NodeProto, opset: int) -> str:
    attributes = attributes_that_matter(node, opset)
    dots = ["..."] if attributes[MOST_ATTRIBUTES:] else []
    bodies = (attribute.g.node for attribute in node.attribute if attribute.HasField("g"))
    inside = [inner.op_type for body in bodies for inner in body]
    inside = [type_ for type_ in dict.fromkeys(inside) if type_ not in (*_PLUMBING, "Identity")]
    more = [f"and {len(inside) - MOST_OPERATORS} more"] if inside[MOST_OPERATORS:] else []
    body = f"({' + '.join([*inside[:MOST_OPERATORS], *more])})" if inside else ""
    return ", ".join([f"{node.op_type}{body}", *attributes[:MOST_ATTRIBUTES], *dots])


def needed_attributes(model: bytes) -> list[str]:
    """The names of attributes_that_matter of the only operator in a serialized ONNX model; none of
    several.
    """
    node, opset = _only_node(model)
    matter = attributes_that_matter(node, opset) if node else []
    return [text.partition("=")[0] for text in matter]


def unwritten(model: bytes) -> list[str]:
    """The names of the attributes that the only operator in a serialized ONNX model may have, and
    does not: no compiler ignores these. None of several operators.
    """
    node, _ = _only_node(model) if model else (None, 0)
    there = {attribute.name for attribute in node.attribute} if node else ()
    return [name for name in schema_defaults(node.op_type) if name not in there] if node else []


def _only_node(model: bytes) -> tuple[onnx.NodeProto | None, int]:
    """The only operator in a serialized ONNX model and its opset; None and 0 of several."""
    import onnx

    proto = onnx.load_model_from_string(model)
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    nodes = [node for node in proto.graph.node if node.op_type not in _PLUMBING]
    return (nodes[0], opsets.get(nodes[0].domain, 1)) if len(nodes) == 1 else (None, 0)


def attributes_that_matter(node: onnx.NodeProto, opset: int) -> list[str]:
    """ "name=value" for each attribute of a node that is not at its default.

    An optional attribute for which the schema has no value is at its default when all its elements
    are 0, or all are 1: no padding, a stride of 1.
    """
    import onnx
    from onnx import defs, helper

    try:
        declared = dict(defs.get_schema(node.op_type, opset, node.domain).attributes)
    except defs.SchemaError:
        declared = {}
    pairs = []
    for attribute in node.attribute:
        value, schema = helper.get_attribute_value(attribute), declared.get(attribute.name)
        if isinstance(value, bytes | str | int | float | list) and not _usual(value, schema):
            dtype = attribute.name in _DTYPES and value in onnx.TensorProto.DataType.values()
            text = onnx.TensorProto.DataType.Name(value).lower() if dtype else _printed(value)
            pairs.append(f"{attribute.name}={text}")
    return pairs


def _usual(value: Any, schema: Any) -> bool:
    from onnx import helper

    if schema is None or schema.required:
        return False
    if schema.default_value.type:
        return bool(helper.get_attribute_value(schema.default_value) == value)
    if isinstance(value, float):
        return False  # a threshold that is 0 is one
    elements = value if isinstance(value, list) else [value]
    return any(all(element == plain for element in elements) for plain in (0, 1))


def _printed(value: Any) -> str:
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
    elif isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, list):
        text = f"[{', '.join(map(_printed, value))}]"
    else:
        text = str(value)
    if len(text) <= MOST_VALUE:
        return text
    return f"{len(value)} values" if isinstance(value, list) else f"{text[:MOST_VALUE]}..."
