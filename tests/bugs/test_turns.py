"""What a watch remembers beside its ledger."""

import pytest

from nnfuzz.bugs.bug import BugError
from nnfuzz.bugs.turns import (
    FILE,
    MOST_TIMES,
    MOST_TURNS,
    Turn,
    WatchState,
    read_state,
    write_state,
)


def test_the_state_is_read_as_it_was_written(ledger):
    assert read_state(ledger) == WatchState()
    state = WatchState(announced=("a",)).after(Turn(1, "numpy", "2026-11-23", tests=7))
    state = state.having_checked("numpy", "1.0").having_checked("numpy", "1.0")
    write_state(ledger, state)
    assert read_state(ledger) == state and state.checked == {"numpy": ("1.0",)}
    assert ledger.names() == ["numpy/pow"]


def test_the_file_stays_small():
    state = WatchState()
    for number in range(MOST_TURNS + 2):
        state = state.after(Turn(number, "numpy", ""))
    assert len(state.turns) == MOST_TURNS and state.number == MOST_TURNS + 1


def test_a_killed_turn_is_begun_again_but_not_for_ever(ledger):
    state = WatchState()
    assert state.interrupted("numpy") == ""
    for _ in range(MOST_TIMES - 1):
        state = state.beginning("numpy", "1.0")
        assert state.interrupted("numpy") == "1.0"
    write_state(ledger, state.beginning("numpy", "1.0"))
    assert read_state(ledger).interrupted("numpy") == ""
    assert state.beginning("numpy", "1.1").interrupted("numpy") == "1.1"
    assert state.after(Turn(1, "numpy", "")).interrupted("numpy") == ""


@pytest.mark.parametrize("text", ["{", "1", '{"schema": 9}', '{"turns": 1}'])
def test_a_damaged_file_is_refused_with_the_fix(ledger, text):
    (ledger.folder / FILE).write_text(text)
    with pytest.raises(BugError, match="delete it"):
        read_state(ledger)
