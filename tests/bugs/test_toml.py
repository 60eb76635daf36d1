"""What is written as TOML is read back as it was."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.base.text import visible
from nnfuzz.bugs.toml import toml_text

SCALARS = st.text() | st.integers(-(2**63), 2**63 - 1) | st.booleans()
VALUES = SCALARS | st.lists(SCALARS, max_size=4) | st.dictionaries(st.text(), SCALARS, max_size=3)


def shown(value):
    if isinstance(value, dict):
        return {visible(key): shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shown(item) for item in value]
    return visible(value) if isinstance(value, str) else value


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_values_are_read_back(fields):
    if len(shown(fields)) == len(fields):  # names that look alike are one
        assert tomllib.loads(toml_text(shown(fields))) == shown(fields)


def test_a_list_has_a_line_for_each_item():
    assert toml_text({"keys": ["a", "b"]}) == 'keys = [\n    "a",\n    "b",\n]\n'
    assert toml_text({"keys": ["a"]}) == 'keys = ["a"]\n'
