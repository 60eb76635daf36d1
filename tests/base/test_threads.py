"""PyTorch's threads while nnfuzz computes in somebody else's process."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import nnfuzz
from nnfuzz.base.threads import one_thread


@pytest.fixture(autouse=True)
def three() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_one_thread_within_and_what_was_set_before_afterwards() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_an_exception_restores_the_threads_as_well() -> None:
    with pytest.raises(ValueError), one_thread():
        raise ValueError
    assert torch.get_num_threads() == 3


def test_generating_and_judging_use_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[int] = set()
    from nnfuzz.compare import edges
    from nnfuzz.testcase.producer import Producer

    for owner, name in ((Producer, "produce"), (edges, "enclosure")):
        whole = getattr(owner, name)

        def watched(*args: object, whole: object = whole) -> object:
            used.add(torch.get_num_threads())
            return whole(*args)  # type: ignore[operator]

        monkeypatch.setattr(owner, name, watched)
    case = nnfuzz.Generator(seed=1, nodes=3, operators=["Add", "Relu"])[0]
    verdict = nnfuzz.Oracle()(case, {k: np.asarray(v) for k, v in case.expected.items()})
    assert verdict.ok and used == {1} and torch.get_num_threads() == 3
