"""A target is one way to compute a model: a compiler, its release, a device, a pipeline, a form.

    onnxruntime@1.31.1/cpu/O3:torchscript        tvm/O0        onnxruntime@1.30.0        :direct

The pipeline is a level of the backend, with steps behind it where it was drawn for a test case, and
the options that change the backend's behaviour, such as "O1+FoldConstant+FuseOps,opset=18"; the
form is who wrote the model: an exporter, or nnfuzz itself ("direct");
or the input of a compiler that reads no ONNX: a "module" of PyTorch, or an "exported" program.
A form whose model was rewritten has the steps behind it, "direct+times_one#5+function#12".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from urllib.parse import unquote

CPU, DIRECT = "cpu", "direct"
DEFAULT = "default"
"""The level of a compiler as its users have it (nnfuzz.backend.contract.Backend.overrides)."""
TURNS, THREADS = "call=turns", "call=threads"
WAYS = {
    TURNS: "two programs of it are alive and take turns",
    THREADS: "threads make all calls at the same time",
}
"""Steps that say how a model is called several times, and what they mean."""
ONNX, MODULE, EXPORTED = "onnx", "module", "exported"
"""The forms that backends read; a target's form names all but the first (nnfuzz.backend.modules).
"""
_TEXT = re.compile(
    r"(?P<compiler>[^@/:]*)(?:@(?P<release>[^@/:]+))?"
    r"(?:/(?P<device>[^@/]+)(?=/))?(?:/(?P<pipeline>(?(device)[^@/:]*|[^@/:]+)))?"
    r"(?::(?P<form>[^@/:]+))?"
)
_RESERVED = re.compile("[%@/:]")


class TargetError(ValueError):
    """A text that is no target; the message says how one is written."""


@dataclass(frozen=True)
class Pipeline:
    """A level of a backend and the changes of it: passes, and options as "NAME=VALUE".

    Written LEVEL+STEP+STEP, and taken wherever a level is; a level is a pipeline without steps.
    """

    level: str
    steps: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Pipeline:
        """The inverse of str, where no step has a plus."""
        level, *steps = text.split("+")
        return cls(level, tuple(steps))

    def __str__(self) -> str:
        return "+".join((self.level, *self.steps))

    @property
    def options(self) -> tuple[str, ...]:
        """The steps that are no passes."""
        return tuple(step for step in self.steps if "=" in step)

    @property
    def way(self) -> str:
        """The step that says how the program is called; "" if no step does."""
        return next((step for step in self.steps if step in WAYS), "")

    @property
    def built(self) -> Pipeline:
        """The pipeline that the compiler builds: without the step that says how it is called."""
        return Pipeline(self.level, tuple(step for step in self.steps if step != self.way))

    @property
    def brief(self) -> str:
        """The level with a mark for its steps, for people and for uses that ignore the steps."""
        return f"{self.level}+…" if self.steps else self.level

    def within(self, other: Pipeline) -> bool:
        """Whether the other one has all of these steps, in this order."""
        rest = iter(other.steps)
        return all(step in rest for step in self.steps)


@dataclass(frozen=True)
class Target:
    """One way to compute a model. An empty coordinate is one that does not matter or is not known.

    `str` writes it and `parse` reads it; the characters %, @, / and : of a name are escaped.
    """

    compiler: str = ""
    release: str = ""
    device: str = CPU
    pipeline: str = ""
    form: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """The inverse of str. One part behind the compiler is the pipeline, two are device and
        pipeline. Raises: TargetError.
        """
        found = _TEXT.fullmatch(text)
        if found is None or not any(found.groups()):
            raise TargetError(
                f"{text!r} is no target: write COMPILER[@RELEASE][/PIPELINE or /DEVICE/PIPELINE]"
                "[:FORM], such as NAME/O0 or NAME@1.31.1/cpu/O3:torchscript"
            )
        parts = {name: unquote(part) for name, part in found.groupdict().items() if part}
        return cls(**parts)

    def __str__(self) -> str:
        text = _escaped(self.compiler) + (f"@{_escaped(self.release)}" if self.release else "")
        if self.pipeline or self.device != CPU:
            device = ":".join(_escaped(part) for part in self.device.split(":"))
            text += f"/{device}/{_escaped(self.pipeline)}"
        return text + (f":{_escaped(self.form)}" if self.form else "")

    @property
    def level(self) -> str:
        """The pipeline without the backend's options: a level, with steps where it was drawn."""
        return self.pipeline.partition(",")[0]

    @property
    def options(self) -> frozenset[str]:
        """The options in the pipeline, "NAME=VALUE"."""
        return frozenset(self.pipeline.split(",")[1:])


def is_rewritten(form: str) -> bool:
    """Whether nnfuzz has rewritten the model of a form, see nnfuzz.vary.rewrite."""
    return "+" in form


def rules_of(form: str) -> list[str]:
    """The names of the rules by which the model of a form was rewritten, sorted."""
    return sorted({step.partition("#")[0] for step in form.split("+")[1:]})


def base_form(form: str) -> str:
    """A form without rewrites."""
    return form.partition("+")[0]


def simpler(one: Target, other: Target, levels: Sequence[str] = ()) -> bool:
    """Whether `one` is simpler than `other`: a different target of the same compiler and release
    that is more complex in no coordinate. This is a partial order.

    The CPU is simpler than other devices, and the direct form is simpler than exported ones.
    levels: the compiler's levels, the least optimised first.
    """
    return (
        one != other
        and (one.compiler, one.release) == (other.compiler, other.release)
        and one.device in (CPU, other.device)
        and one.form in (DIRECT, other.form)
        and one.options <= other.options
        and _before(one.level, other.level, levels)
    )


def minimal(targets: Collection[Target], levels: Sequence[str] = ()) -> list[Target]:
    """Those that none of the others is simpler than, in their order."""
    return [t for t in targets if not any(simpler(other, t, levels) for other in targets)]


def differing(one: Target, other: Target) -> tuple[str, ...]:
    """The names of the coordinates in which two targets differ."""
    names = (f.name for f in fields(Target))
    return tuple(name for name in names if getattr(one, name) != getattr(other, name))


def levels_of(targets: Iterable[Target]) -> tuple[str, ...]:
    """Their levels without repetition, in the order of the targets."""
    return tuple(dict.fromkeys(target.level for target in targets))


def _before(one: str, other: str, levels: Sequence[str]) -> bool:
    """Whether a pipeline has no steps that the other one lacks, and no higher level."""
    mine, theirs = Pipeline.parse(one), Pipeline.parse(other)
    order = [Pipeline.parse(level).level for level in levels]
    known = mine.level in order and theirs.level in order
    lower = known and order.index(mine.level) <= order.index(theirs.level)
    return mine.within(theirs) and (mine.level == theirs.level or lower)


def _escaped(name: str) -> str:
    return _RESERVED.sub(lambda found: f"%{ord(found[0]):02X}", name)
