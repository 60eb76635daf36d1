"""Everything that others have made is read here: files of findings, corpora, campaigns, models.

A file of somebody else may be a pipe that never sends anything, a link to a device, an archive that
unpacks to terabytes, or a document of the right form with the wrong types in it. All of that is
`Unreadable`, which the command line turns into one line and exit code 2. docs/SECURITY_MODEL.md
says which files are trusted, and how far.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from nnfuzz.base.reading import Json, Unreadable, read

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

    import numpy as np
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

T = TypeVar("T")

MAX_BYTES = 2 << 30
"""The largest file: the most that a serialised protobuf may have, and so a model without further
files."""
MAX_TEXT_BYTES = 64 << 20
"""The largest text or JSON file: the largest finding.json so far, of a seed model, had 3 MB."""
MAX_ARRAY_BYTES = 1 << 30
"""The most of an archive's unpacked arrays: four times the default growth of a worker."""
READ_SECONDS = 30.0
"""The time limit of one file: a network file system that is gone never answers."""
_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
MAX_MEMBERS = 10_000
"""The most files of an archive: a finding has some twenty, and a model some hundred arrays."""
_PIECE = 1 << 20  # bytes that are unpacked at a time
_MEMBER_HEADER = 10_000  # bytes of the header of an array; NumPy's own limit


@contextmanager
def making_sense(of: object) -> Iterator[None]:
    """Turns any error of its block into Unreadable; the block does nothing but decode.

    Decoders meet every kind of exception in damaged data, and it is never a fault of nnfuzz.
    """
    try:
        yield
    except (Unreadable, MemoryError):
        raise
    except OSError as error:
        raise Unreadable(f"{of} cannot be read: {error.strerror or error}") from error
    except Exception as error:
        message = " ".join(str(error).split())[:200]
        raise Unreadable(f"{of} is damaged: {type(error).__name__}: {message}") from error


def read_bytes(
    path: str | Path,
    limit: int = MAX_BYTES,
    seconds: float = READ_SECONDS,
    start: int = 0,
    length: int = -1,
) -> bytes:
    """The content of a regular file, or `length` bytes of it from `start` on; links are followed.

    length: -1 for all that is behind `start`.
    Raises: Unreadable for a pipe, a device or a folder, for more than `limit` bytes, for fewer than
    `length`, and if reading takes longer than `seconds`.
    """
    results: list[bytes | BaseException] = []

    def read() -> None:
        try:
            results.append(_content(path, limit, start, length))
        except BaseException as error:
            results.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(seconds)
    with making_sense(path):
        if not results:
            raise Unreadable(f"{path} cannot be read: it takes longer than {seconds:g} s")
        if isinstance(results[0], BaseException):
            raise results[0]
    return results[0]


def _content(path: str | Path, limit: int, start: int, length: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise Unreadable(f"{path} cannot be read: it is no regular file")
        wanted = about.st_size - start if length < 0 else length
        if not 0 <= start <= start + wanted <= about.st_size:
            raise Unreadable(f"{path} is damaged: it is cut off")
        large = Unreadable(f"{path} cannot be read: it has more than {limit:,} bytes")
        if wanted > limit:
            raise large
        file.seek(start)
        data = file.read(wanted)
        while length < 0 and len(data) <= limit and (more := file.read(_PIECE)):
            data += more  # of a file that grows, or that says it has no size
        if len(data) > limit:
            raise large
        return data


def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8. Raises: Unreadable."""
    with making_sense(path):
        return read_bytes(path, MAX_TEXT_BYTES).decode()


def read_json(path: str | Path) -> Json:
    """The document in a file. Raises: Unreadable."""
    return parsed_json(read_text(path), path)


def parsed_json(text: str | bytes, of: object = "the text") -> Json:
    """A JSON document of no great depth; texts in it are valid Unicode.

    Raises: Unreadable.
    """
    with making_sense(of):
        text = text if isinstance(text, str) else text.decode()
        value = json.loads(text)
        if _LONE_SURROGATE.search(text):
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        return read(Json, value)


def read_npz(path: str | Path) -> dict[str, np.ndarray]:
    """All arrays of an archive, by name and in order; {} if there is no such file.

    Raises: Unreadable.
    """
    if not os.path.lexists(path):
        return {}
    import io
    import zipfile

    data = read_bytes(path, MAX_ARRAY_BYTES)
    with making_sense(path), zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if len(members) > MAX_MEMBERS:
            raise Unreadable(f"{path} has more than {MAX_MEMBERS:,} arrays")
        if sum(member.file_size for member in members) > MAX_ARRAY_BYTES:
            raise Unreadable(
                f"{path} is damaged: it unpacks to more than {MAX_ARRAY_BYTES:,} bytes"
            )
        if any(m.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for m in members):
            raise Unreadable(f"{path} is damaged: NumPy packs nothing in this way")
        return dict(_member(archive, member) for member in members)


def _member(archive: ZipFile, member: ZipInfo) -> tuple[str, np.ndarray]:
    with archive.open(member) as file:
        return _named(member.filename, _read_array(file, member.file_size, member.filename))


def _named(member: str, bits: np.ndarray) -> tuple[str, np.ndarray]:
    """The name and the array that nnfuzz.base.files.npz_bytes has written as a member."""
    import ml_dtypes
    import numpy as np

    key = member.removesuffix(".npy")
    name, at, dtype = key.rpartition("@")
    kind = np.dtype(getattr(ml_dtypes, dtype, object))
    if not at or kind.hasobject:
        return key, bits
    if bits.dtype != f"u{kind.itemsize}":
        raise Unreadable(f"{member} is damaged: {bits.dtype} are no bits of {dtype}")
    return name, bits.view(kind)


def _read_array(file: IO[bytes], total: int, of: object) -> np.ndarray:
    """The array in an .npy file of so many bytes, of which no more than a piece is read before its
    header is known to fit. Raises: Unreadable.
    """
    import math

    import numpy as np

    with making_sense(of):
        version = np.lib.format.read_magic(file)
        read = np.lib.format
        header = {(1, 0): read.read_array_header_1_0, (2, 0): read.read_array_header_2_0}[version]
        shape, fortran, dtype = header(file, _MEMBER_HEADER)
        size = total - file.tell()
        if dtype.kind not in "biufcU" or min(shape, default=0) < 0:
            raise Unreadable(
                f"{of} is damaged: {dtype}{list(shape)} is no array of numbers or texts"
            )
        if math.prod(shape) * dtype.itemsize != size:
            raise Unreadable(f"{of} is damaged: {size} bytes are no {dtype}{list(shape)}")
        bits = np.empty(size, np.uint8)
        for start in range(0, size, _PIECE):
            piece = file.read(min(_PIECE, size - start))
            bits[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
            if len(piece) < min(_PIECE, size - start):
                raise Unreadable(f"{of} is damaged: it is cut off")
        if dtype.kind == "U":
            points = bits.view(np.dtype(np.uint32).newbyteorder(dtype.byteorder))
            if ((points > 0x10FFFF) | (points >> 11 == 0x1B)).any():
                raise Unreadable(f"{of} is damaged: it holds code points that no text has")
        return bits.view(dtype).reshape(shape, order="F" if fortran else "C")


def read_model(path: str | Path) -> ModelProto:
    """A model with the tensors that it keeps in files beside it, of MAX_BYTES in all.

    Raises: Unreadable.
    """
    model = parsed_model(read_bytes(path), path, alone=False)
    for tensor in _embedded(model, path):
        tensor.ClearField("external_data")
    return model


def read_embedded(path: str | Path) -> bytes:
    """A serialised model, with the tensors that it keeps in files beside it in the model itself.

    These tensors still name their files, so that nnfuzz.base.external_data can write them again.
    The content of the file where it keeps none. Raises: Unreadable.
    """
    data = read_bytes(path)
    if b"location" not in data:
        return data
    model = parsed_model(data, path, alone=False)
    return model.SerializeToString(deterministic=True) if _embedded(model, path) else data


def _embedded(model: ModelProto, path: str | Path) -> list[TensorProto]:
    """Reads the tensors that a model keeps in files beside it into the model; returns them.

    Raises: Unreadable, for more than MAX_BYTES in all as well.
    """
    places = [(tensor, *_place(path, tensor)) for tensor in _outside(model)]
    if sum(length for *_, length in places) > MAX_BYTES:
        raise Unreadable(f"{path} is too large: its tensors have more than {MAX_BYTES:,} bytes")
    for tensor, file, start, length in places:
        tensor.raw_data = read_bytes(file, start=start, length=length)
        tensor.ClearField("data_location")
    return [tensor for tensor, *_ in places]


def _place(path: str | Path, tensor: TensorProto) -> tuple[Path, int, int]:
    """The file that a tensor is kept in, where in it, and how many bytes. Raises: Unreadable."""
    with making_sense(f"{path}, tensor {tensor.name}"):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        file = below(Path(path).parent, entries["location"])
        size, start = file.stat().st_size, int(entries.get("offset", 0))
        length = int(entries["length"]) if "length" in entries else size - start
        if not 0 <= start <= start + length <= size:
            raise Unreadable(f"{path} is damaged: tensor {tensor.name} is cut off")
        return file, start, length


def parsed_model(data: bytes, of: object = "the model", alone: bool = True) -> ModelProto:
    """A serialised model of a size that can be walked. alone: it must not name other files.

    Raises: Unreadable.
    """
    import onnx

    with making_sense(of):
        model = onnx.load_model_from_string(data)
    if not (model.graph.node or model.graph.input or model.graph.output):
        raise Unreadable(f"{of} is no ONNX model, or an empty one")
    check_bounds(model, of)
    if alone and (tensor := next(_outside(model), None)):
        raise Unreadable(f"{of} keeps the tensor {tensor.name} in another file")
    return model


def _outside(message: Any) -> Iterator[Any]:
    """All tensors inside of a protobuf message whose data is elsewhere."""
    from onnx import TensorProto

    if isinstance(message, TensorProto):
        if message.data_location == TensorProto.EXTERNAL:
            yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from _outside(inner)


def below(folder: str | Path, name: str) -> Path:
    """The path that a file names, which is inside of the folder that the file belongs to.

    Raises: Unreadable for absolute names, for "..", and for links that lead out of the folder.
    """
    path = Path(folder) / name
    with making_sense(folder):
        inside = not Path(name).is_absolute() and ".." not in Path(name).parts and "\0" not in name
        root = Path(folder).resolve()
        if not inside or not name.strip("./") or not path.resolve().is_relative_to(root):
            raise Unreadable(f"{folder} names {name!r}, which is not inside of it")
    return path


def as_far_as(items: Iterable[T], what: str, missing: list[str]) -> Iterator[T]:
    """The items that can be read, up to the first that cannot; `missing` gets the reason."""
    try:
        with making_sense(what):
            yield from items
    except Unreadable as error:
        missing.append(f"{what}: {error}")


def whole_or(default: object, read: Callable[[], object], what: str, missing: list[str]) -> Any:
    """The result of `read`; if it fails, the default, and `missing` gets the reason."""
    try:
        with making_sense(what):
            return read()
    except Unreadable as error:
        missing.append(f"{what}: {error}")
        return default


# -- models that mean too much, or nothing -----------------------------------------------------
#
# A file of three kilobytes can be a model of 2^40 nodes once its functions are written out, and
# one whose functions call themselves has no end. Shape inference, inlining and the rest of ONNX
# find out by trying, so the nodes are counted first.

MAX_NODES = 1_000_000
"""The most nodes of a model with its functions written out at every call; the largest models that
exporters write of modules have some ten thousand."""
_WORDS = 200  # characters of the checker's message
_SHOWN = 5  # functions of a circle that an error names


class Unusable(Unreadable):
    """A model that is complete, but means too much, or nothing; the message has the reason."""


def check_bounds(model: ModelProto, of: object = "the model") -> None:
    """Raises: Unusable if the model has more than MAX_NODES nodes once functions are written out,
    or a function calls itself, directly or by others.
    """
    try:
        count = _written_out(model)
    except CycleError as error:
        circle = " calls ".join(name[1] for name in error.args[1][:_SHOWN])
        raise Unusable(f"{of} makes no sense: a function calls itself ({circle})") from error
    if count > MAX_NODES:
        raise Unusable(
            f"{of} is too large: it has more than {MAX_NODES:,} nodes, functions written out"
        )


def check_sense(model: ModelProto, of: object = "the model") -> None:
    """Raises: Unusable for what ONNX forbids and its libraries do not survive in any order: an
    attribute that a node has twice; for names with control characters, and for tensors of a dtype
    that ONNX does not have.
    """
    from onnx import TensorProto

    graph, dtypes = model.graph, {*TensorProto.DataType.values()}
    ends = (*graph.input, *graph.output, *graph.value_info)
    codes = [(v.name, v.type.tensor_type.elem_type) for v in ends]
    for name, code in (*codes, *((t.name, t.data_type) for t in graph.initializer)):
        if code not in dtypes:
            raise Unusable(f"{of} makes no sense: {name!r} has the dtype {code}, which is unknown")
    names = [name for node in all_nodes(graph.node) for name in (node.name, *node.output)]
    for name in (*names, *(name for name, _ in codes)):
        if not name.isprintable():
            raise Unusable(f"{of} makes no sense: the name {name!a} has control characters")
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in all_nodes(nodes):
            twice = [n for n, k in Counter(a.name for a in node.attribute).items() if k > 1]
            if twice:
                raise Unusable(
                    f"{of} makes no sense: a {node.op_type} has the attribute {twice[0]!r} twice"
                )


@contextmanager
def blaming(
    model: ModelProto | bytes, of: object = "the model", known: type[Exception] = Unreadable
) -> Iterator[None]:
    """Raises: Unusable for an exception of the block if ONNX's checker rejects the model.

    known: exceptions that explain themselves, and pass. So do all if the model is valid: they are
    faults of nnfuzz.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, Unreadable | MemoryError | known):
            raise
        from onnx import checker

        try:
            checker.check_model(model)
        except Exception as problem:  # of several classes
            message = " ".join(str(problem).split())[:_WORDS]
            raise Unusable(f"{of} is not valid: {message}") from error
        raise


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Nodes, and those of all sub-graphs inside of them."""
    for node in nodes:
        yield node
        for graph in bodies(node):
            yield from all_nodes(graph.node)


def bodies(node: NodeProto) -> Iterator[GraphProto]:
    """The sub-graphs of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _written_out(model: ModelProto) -> int:
    """Nodes of a model whose functions are written out at every call, or some number above
    MAX_NODES. Raises: CycleError.
    """
    functions = {
        (f.domain, f.name, f.overload): Counter(map(_kind, all_nodes(f.node)))
        for f in model.functions
    }
    calls = {name: kinds.keys() & functions.keys() for name, kinds in functions.items()}
    sizes: dict[tuple[str, ...], int] = {}
    for name in TopologicalSorter(calls).static_order():
        sizes[name] = _size(functions[name], sizes)
    return _size(Counter(map(_kind, all_nodes(model.graph.node))), sizes)


def _kind(node: NodeProto) -> tuple[str, str, str]:
    """The function that a node calls, if there is such a function."""
    return node.domain, node.op_type, node.overload


def _size(kinds: Counter[tuple[str, str, str]], sizes: dict[tuple[str, ...], int]) -> int:
    """Nodes of a body, and at most MAX_NODES + 1, above which the count does not matter."""
    return min(sum(k * (1 + sizes.get(kind, 0)) for kind, k in kinds.items()), MAX_NODES + 1)


def in_order(model: ModelProto, of: object = "the model") -> ModelProto:
    """The model if its nodes are in topological order; else a copy in which they are, and whose
    order differs as little as possible. Raises: Unusable for a node that depends on itself.
    """
    if all(_order(nodes, of) == [*range(len(nodes))] for nodes in _levels(model)):
        return model
    copy = type(model).FromString(model.SerializeToString())
    for nodes in _levels(copy):
        ordered = [nodes[i] for i in _order(nodes, of)]
        del nodes[:]
        nodes.extend(ordered)
    return copy


def _levels(model: ModelProto) -> Iterator[Any]:
    """The lists of nodes of a model, those of bodies before the one with the node around them."""

    def levels(nodes: Any) -> Iterator[Any]:
        for graph in (graph for node in nodes for graph in bodies(node)):
            yield from levels(graph.node)
        yield nodes

    for nodes in (*(function.node for function in model.functions), model.graph.node):
        yield from levels(nodes)


def _order(nodes: Sequence[NodeProto], of: object) -> list[int]:
    """Positions of nodes of one level in topological order, the first ones first."""
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    sorter, order, ready = TopologicalSorter[int](), list[int](), list[int]()
    for i, node in enumerate(nodes):
        read = {name for own in all_nodes([node]) for name in own.input}
        sorter.add(i, *(makers[name] for name in read if name in makers))
    try:
        sorter.prepare()
    except CycleError as error:
        raise Unusable(f"{of} makes no sense: nodes read each other in a circle") from error
    while sorter.is_active():
        for i in sorter.get_ready():
            heappush(ready, i)
        order.append(heappop(ready))
        sorter.done(order[-1])
    return order
