"""Jobs of workers: one record for each kind, and the one dispatcher of all services.

    @dataclass(frozen=True)
    class Count(Job[int]):
        '''How many words a text has.'''
        text: str

    class Counter(Service):
        @does(Count)
        def count(self, job: Count, report: Report) -> int:
            return len(job.text.split())

The campaign hands `Count("one two")` to a sandbox that hosts `Counter`, and gets a `Reply` with 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

from nnfuzz.base.reading import Json, JsonObject
from nnfuzz.sandbox.record import pack, unpack
from nnfuzz.sandbox.wire import Blobs, NamedBlobs, WireError, encode

A = TypeVar("A")
Method = TypeVar("Method", bound=Callable[..., Any])


class Job(Generic[A]):
    """Work for a worker, answered by an A: a frozen dataclass whose fields are its whole input.

    answer: the type A. part: the type of the messages that precede the answer, `parts` of them.
    """

    answer: ClassVar[Any]
    part: ClassVar[object] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in cls.__dict__.get("__orig_bases__", ()):
            if get_origin(base) is Job:
                (cls.answer,) = get_args(base)

    @property
    def parts(self) -> int:
        return 0

    def accept(self, answer: A) -> A:
        """The answer. Raises: ValueError if it cannot be one to this job."""
        return answer

    def to_frame(self) -> tuple[JsonObject, NamedBlobs]:
        """Header and blobs for nnfuzz.sandbox.wire."""
        header, blobs = pack(type(self), self)
        return {"job": type(self).__name__, **header}, blobs

    def read_answer(self, header: Mapping[str, Json], blobs: Blobs) -> A:
        """The answer that a worker has sent. Raises: ValueError, TypeError or KeyError."""
        return self.accept(unpack(self.answer, header, blobs))

    def read_part(self, number: int, header: Mapping[str, Json], blobs: Blobs) -> object:
        """A part sent ahead. number: of parts before it. Raises: as `read_answer`."""
        if number >= self.parts:
            raise WireError("a part that nobody asked for")
        return unpack(self.part, header, blobs)


class Report:
    """Reports to the campaign, while a job runs, which stage the service has reached."""

    def __init__(
        self,
        enter: Callable[[str], None] = lambda stage: None,
        send: Callable[[bytes], None] = lambda frame: None,
    ):
        """enter: called with each stage that is reached. send: called with each part of the answer
        that is sent ahead, as encoded bytes. By default both do nothing.
        """
        self._enter = enter
        self._send = send

    def __call__(self, stage: str) -> None:
        """Names the stage that a death from here on belongs to (at most 255 bytes, < 1 us)."""
        self._enter(stage)

    def part(self, value: object) -> None:
        """Sends a part of the answer ahead, safe from a later death; restarts the job's clock."""
        self._send(encode(*pack(type(value), value)))


def does(kind: type[Job[Any]]) -> Callable[[Method], Method]:
    """Marks the method of a service that does one kind of job."""

    def mark(method: Method) -> Method:
        method.__dict__["job"] = kind
        return method

    return mark


class Service:
    """A service in a sandbox: an object with a method for each kind of job, marked with `does`.

    A method takes the job and a Report, and returns the answer.
    """

    _kinds: ClassVar[dict[str, tuple[type[Job[object]], str]]] = {}
    """The kind of job and the name of its method, by the name of the kind."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        marked = {name: vars(m)["job"] for name, m in vars(cls).items() if hasattr(m, "job")}
        cls._kinds = {**cls._kinds, **{kind.__name__: (kind, n) for n, kind in marked.items()}}

    def handle(
        self, header: Mapping[str, Json], blobs: Blobs, report: Report
    ) -> tuple[JsonObject, NamedBlobs]:
        """Does a job; both ends as header and blobs. Raises: any error of its method."""
        if header["job"] not in self._kinds:
            raise ValueError(f"{type(self).__name__} does no job {header['job']!r}")
        kind, _ = self._kinds[header["job"]]
        return pack(kind.answer, self.done(unpack(kind, header, blobs), report))

    def done(self, job: Job[A], report: Report) -> A:
        """The answer to a job. Raises: any error of its method."""
        answer: A = getattr(self, self._kinds[type(job).__name__][1])(job, report)
        return answer
