"""Faults in the bytes of the file."""

from __future__ import annotations

import random

from google.protobuf.message import DecodeError
from onnx import ModelProto

from nnfuzz.invalid.kinds import kind
from nnfuzz.invalid.site import NoPlace, Site

ENCODING = "Protocol Buffers, Encoding: the bytes are a sequence of well-formed fields"
TRIES = 50


@kind(ENCODING)
def truncated_file(site: Site) -> str:
    """The file ends in the middle of a field."""
    whole = site.model.SerializeToString(deterministic=True)
    for _ in range(TRIES):
        data = whole[: site.rng.randrange(1, len(whole))]
        if not _is_message(data):
            site.data = data
            return f"the file ends after {len(data)} of {len(whole)} bytes"
    raise NoPlace


@kind(ENCODING)
def corrupted_file(site: Site) -> str:
    """Some bits of the file are flipped, so that it is no message any more."""
    whole = site.model.SerializeToString(deterministic=True)
    for _ in range(TRIES):
        data, count = bytearray(whole), site.choice((1, 2, 8, 64))
        for _ in range(count):
            data[site.rng.randrange(len(data))] ^= 1 << site.rng.randrange(8)
        if not _is_message(bytes(data)):
            site.data = bytes(data)
            return f"{count} of the file's bits are flipped, which makes it unreadable"
    raise NoPlace


@kind(ENCODING)
def other_file(site: Site) -> str:
    """A file that is something else."""
    files = {
        "text": b"this is not a model\n" * 8,
        "a ZIP archive": b"PK\x03\x04" + bytes(60),
        "random bytes": random.Random(site.rng.random()).randbytes(500),
        "bytes of 255": b"\xff" * 200,
    }
    how = site.choice([how for how in sorted(files) if not _is_message(files[how])])
    site.data = files[how]
    return f"the file is {how}"


@kind("onnx.proto, ModelProto: ir_version, opset_import and a graph must be present")
def empty_file(site: Site) -> str:
    """A file of no bytes, which is a message without any field."""
    site.data = b""
    return "the file is empty"


def _is_message(data: bytes) -> bool:
    try:
        ModelProto.FromString(data)
    except DecodeError:
        return False
    return True
