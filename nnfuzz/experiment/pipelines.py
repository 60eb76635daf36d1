"""Which steps of a drawn pipeline matter: the fewest with which it still fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from nnfuzz.backend.target import Pipeline

Failing = Callable[[Sequence[str]], Collection[str]]
"""Which of some pipelines, as texts, fail in the way that matters."""


def shorten_pipeline(text: str, failing: Failing) -> str:
    """A failing pipeline with one of its steps alone if that fails, too; else without those that
    can be left out, one after the other, in as many runs as there are steps.
    """
    pipeline = Pipeline.parse(text)
    if len(pipeline.steps) < 2:
        return text
    alone = [str(Pipeline(pipeline.level, (step,))) for step in pipeline.steps]
    bad = failing(alone)
    if one := next((text for text in alone if text in bad), ""):
        return one
    steps = list(pipeline.steps)
    for step in pipeline.steps:
        fewer = Pipeline(pipeline.level, tuple(other for other in steps if other != step))
        if len(steps) > 2 and failing([str(fewer)]):
            steps.remove(step)
    return str(Pipeline(pipeline.level, tuple(steps)))
