"""Messages between processes, and their records."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import pytest
from hostile import Misbehave
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nnfuzz.backend.target import Target
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.sandbox import wire
from nnfuzz.sandbox.events import TEXT_CHARS, described_error, shortened
from nnfuzz.sandbox.job import Job, Service, does
from nnfuzz.sandbox.record import pack, unpack
from nnfuzz.sandbox.sandbox import (
    Reply,
    wait,
)
from nnfuzz.sandbox.wire import ALIGNMENT, WireError, decode, encode, stand_in
from nnfuzz.testcase.identity import ForeignId, Numbered, Probe, TestId
from tests.sandbox.test_sandbox import fine

DTYPES = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.complex64, ">f4", ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)])
def test_every_dtype_and_shape_survives(dtype, shape):
    array = np.ones(shape).astype(dtype)
    _, blobs = decode(encode({}, {"a": array}))
    assert blobs["a"].dtype == array.dtype
    assert blobs["a"].shape == shape
    assert blobs["a"].tobytes() == array.tobytes()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
arrays = hnp.arrays(
    st.sampled_from(["<f4", "<f8", "<f2", "<i8", "|b1", "|u1"]),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)


@given(
    st.dictionaries(st.text(), json_values),
    st.dictionaries(st.text(), arrays | st.binary()),
)
def test_round_trip(header, blobs):
    frame = encode(header, blobs)
    got, back = decode(frame)
    assert got == json.loads(json.dumps(header))
    assert list(back) == list(blobs)
    for name, blob in blobs.items():
        if isinstance(blob, bytes):
            assert back[name] == blob
        else:
            assert (back[name].dtype, back[name].shape) == (blob.dtype, blob.shape)
            assert back[name].tobytes() == blob.tobytes()


def test_a_stand_in_takes_no_memory_and_keeps_dtype_and_shape():
    huge = stand_in(np.broadcast_to(np.float16(1), (1 << 20, 1 << 20)))
    frame = encode({}, {"a": huge, "b": np.broadcast_to(np.int8(7), (2, 3))})
    assert len(frame) < 1000
    _, blobs = decode(frame)
    assert (blobs["a"].dtype, blobs["a"].shape) == (np.float16, (1 << 20, 1 << 20))
    np.testing.assert_array_equal(blobs["b"], np.full((2, 3), 7, np.int8))


def test_arrays_are_aligned_views_of_the_frame():
    frame = encode({"text": "ä"}, {"b": b"123", "a": np.arange(5.0), "c": np.ones((2, 2), "f4")})
    buffer = np.frombuffer(frame, np.uint8)
    _, blobs = decode(frame)
    for name in "ac":
        assert (blobs[name].ctypes.data - buffer.ctypes.data) % ALIGNMENT == 0
        assert not blobs[name].flags.writeable
    assert decode(bytearray(frame))[1]["a"].flags.writeable


def test_strided_arrays_are_made_contiguous():
    array = np.arange(12).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(decode(encode({}, {"a": array}))[1]["a"], array)


@given(st.data())
def test_a_truncated_frame_is_an_error(data):
    frame = encode({"k": [1, 2]}, {"a": np.arange(7), "b": b"12345"})
    cut = data.draw(st.integers(0, len(frame) - 60))
    with pytest.raises(WireError):
        decode(frame[:cut])


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (b"NNF1", b"NNF9", "begins with"),
        (b'"<i8"', b'"<i4"', "does not fill"),
        (b'"<i8"', b'"<i?"', "damaged"),
        (b'"blobs"', b'"blobz"', "damaged"),
        (b'"header"', b'xheader"', "damaged"),
    ],
)
def test_a_damaged_frame_is_an_error(old, new, complaint):
    frame = encode({}, {"a": np.arange(7)}).replace(old, new, 1)
    with pytest.raises(WireError, match=complaint):
        decode(frame)


@pytest.mark.parametrize("blob", [np.array([None]), np.zeros(2, "f4,i4"), [1.0], "text"])
def test_what_has_no_wire_form_is_refused_by_name(blob):
    with pytest.raises(WireError, match="'culprit'"):
        encode({}, {"culprit": blob})


def test_a_header_outside_of_json_is_refused():
    with pytest.raises(WireError, match="JSON"):
        encode({"array": np.ones(2)}, {})


# Messages and output that do not fit into a buffer.


def test_megabytes_of_output_keep_both_ends(sandbox):
    event = sandbox.call(Misbehave("print_megabytes"))
    assert isinstance(event, Reply)
    assert len(event.captured) < 70_000
    assert "the first line" in event.captured
    assert event.captured.endswith("the last line\n")
    assert "bytes left out" in event.captured
    assert sandbox.call(Misbehave("nothing")).captured == ""


def test_large_frames_pass_without_blocking_the_submitter(sandbox):
    fine(sandbox)
    array = np.random.default_rng(0).random(4 << 20)
    start = time.monotonic()
    sandbox.submit(Misbehave("nothing", {"a": array}))
    assert time.monotonic() - start < 2.0
    ((_, event),) = wait([sandbox])
    np.testing.assert_array_equal(event.value.arrays["a"], array)


# Jobs say what answers them; services find the method for a job by its kind.


@dataclass(frozen=True)
class Count(Job[int]):
    text: str

    def accept(self, answer: int) -> int:
        if answer > len(self.text):
            raise ValueError("more words than characters")
        return answer


@dataclass(frozen=True)
class Split(Job[list[str]]):
    text: str


class CountTwice(Count):
    """Counts every word twice."""


class Counter(Service):
    @does(Count)
    def count(self, job, report):
        report("counting")
        return len(job.text.split())

    @does(CountTwice)
    def twice(self, job, report):
        return 2 * self.count(job, report)


class Liar(Counter):
    def count(self, job, report):
        return 1000


class Splitter(Counter):
    @does(Split)
    def split(self, job, report):
        return job.text.split()


def done(service: Service, job: Job):
    return job.read_answer(*service.handle(*job.to_frame(), lambda stage: None))


def test_a_job_is_done_by_the_method_that_is_marked_with_its_kind():
    assert done(Counter(), Count("one two")) == 2
    assert done(Counter(), CountTwice("one two")) == 4
    assert done(Splitter(), Split("one two")) == ["one", "two"]
    assert done(Splitter(), Count("one two")) == 2


def test_what_a_job_does_not_accept_is_refused():
    with pytest.raises(ValueError, match="more words than characters"):
        done(Liar(), Count("one"))


def test_a_job_that_a_service_does_not_do_is_named():
    with pytest.raises(ValueError, match="Counter does no job 'Split'"):
        done(Counter(), Split("one"))


def test_parts_have_to_be_announced():
    with pytest.raises(WireError, match="nobody asked for"):
        Count("one").read_part(0, {"value": 1}, {})


# Exceptions as text.


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return described_error(caught)


def test_type_message_and_traceback():
    text = raised(KeyError("x"))
    assert text["error_type"] == "KeyError" and text["message"] == "'x'"
    assert text["traceback"].startswith("Traceback") and "in raised" in text["traceback"]
    assert "^^^" not in text["traceback"]


def test_a_cause_is_part_of_the_traceback():
    try:
        try:
            raise OSError("first")
        except OSError as cause:
            raise RuntimeError("second") from cause
    except RuntimeError as error:
        trace = described_error(error)["traceback"]
    assert trace.index("first") < trace.index("second") and "^^^" not in trace


def test_an_error_without_a_text_is_described_all_the_same():
    assert "str() of the error failed" in raised(Unprintable())["message"]


def test_a_long_text_keeps_both_ends():
    text = shortened("a" * TEXT_CHARS + "b" * TEXT_CHARS)
    assert text[0] == "a" and text[-1] == "b" and f"{TEXT_CHARS} characters left out" in text
    assert shortened("short") == "short"


# Records keep their values on the wire; what does not fit their types is refused.


X = np.arange(6, dtype=np.float16).reshape(2, 3)


@dataclass(frozen=True, eq=False)
class Leaf:
    arrays: Mapping[str, np.ndarray]
    maybe: Mapping[str, np.ndarray] | None = None


@dataclass(frozen=True)
class Other:
    text: str


@dataclass(frozen=True, eq=False)
class Whole:
    data: bytes
    one: np.ndarray
    leaves: tuple[Leaf, ...]
    pair: tuple[Leaf, int]
    either: Leaf | Other
    target: Target
    test: TestId
    nothing: Leaf | None = None
    numbers: dict[str, float] = field(default_factory=dict)


def through(kind, value):
    return unpack(kind, *wire.decode(wire.encode(*pack(kind, value))))


def whole(**changes) -> Whole:
    leaf = Leaf({"x": X, "a/b": X[0]})
    fields = {
        "data": b"\0bytes",
        "one": X,
        "leaves": (leaf, Leaf({}, {"y": X})),
        "pair": (leaf, 7),
        "either": Other("text"),
        "target": Target("toy", "1.0", pipeline="O1"),
        "test": Numbered(3, 4),
        "numbers": {"a": 0.5},
    }
    return Whole(**{**fields, **changes})


def test_every_field_survives():
    made = through(Whole, whole())
    assert made.data == b"\0bytes" and np.array_equal(made.one, X) and made.one.dtype == X.dtype
    assert [*made.leaves[0].arrays] == ["x", "a/b"] and made.leaves[0].maybe is None
    assert not made.leaves[1].arrays and np.array_equal(made.leaves[1].maybe["y"], X)
    assert made.pair[1] == 7 and np.array_equal(made.pair[0].arrays["a/b"], X[0])
    assert made.either == Other("text") and made.nothing is None
    assert made.target == whole().target and made.numbers == {"a": 0.5}


PROBE = Probe(SupportKey.parse("direct:Add(int8)->int8"), 1)


@pytest.mark.parametrize("test", [Numbered(3, 4), PROBE, ForeignId(5)])
def test_every_kind_of_test_id_survives(test):
    assert through(TestId, test) == test
    assert through(Whole, whole(test=test)).test == test


@pytest.mark.parametrize("value", [None, "text", ["a", "b"], {"a": [1]}])
def test_plain_answers_survive(value):
    kind = str | list[str] | dict[str, list[int]] | None
    assert through(kind, value) == value


def test_of_several_records_the_class_is_written():
    assert isinstance(through(Leaf | Other, Leaf({})), Leaf)
    assert through(Leaf | Other, Other("a")) == Other("a")
    assert pack(Leaf | Other, Other("a"))[0] == {"value": {"Other": {"text": "a"}}}


@pytest.mark.parametrize(
    "change",
    [
        {"surprise": 1},
        {"data": None, "test": 7},
        {"leaves": {}},
        {"pair": [{"arrays": True}]},
        {"either": {"Neither": {}}},
        {"either": {}},
        {"target": "@@"},
        {"numbers": {"a": "b"}},
    ],
)
def test_damage_is_refused(change):
    header, blobs = pack(Whole, whole())
    with pytest.raises((ValueError, KeyError, TypeError)):
        unpack(Whole, {"value": {**header["value"], **change}}, blobs)


def test_bytes_are_no_array_and_a_blob_may_not_be_missing():
    header, blobs = pack(Whole, whole())
    with pytest.raises(ValueError, match="should be ndarray, not bytes"):
        unpack(Whole, header, {**blobs, "one": b"raw"})
    with pytest.raises(ValueError, match="should be ndarray, not bytes"):
        unpack(Whole, header, {**blobs, "leaves/0/arrays/x": b"raw"})
    with pytest.raises(KeyError):
        unpack(Whole, header, {name: blob for name, blob in blobs.items() if name != "data"})
