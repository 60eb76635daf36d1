"""Specs stay short: what is not about the operator itself lives elsewhere."""

from __future__ import annotations

import statistics
import textwrap

from count_spec_lines import lines

from nnfuzz.spec.registry import OpRegistry


def test_half_of_all_specs_have_13_lines_or_fewer():
    """The 97th of 193 has 13, and 12 without `edges`, which 30 specs declare since."""
    counts = {spec.name: lines(spec) for spec in OpRegistry.load().specs()}
    longest = sorted(counts, key=counts.get, reverse=True)[:5]
    assert statistics.median(counts.values()) <= 13, f"the longest are {longest}"


def test_docstrings_comments_and_blank_lines_do_not_count(tmp_path, monkeypatch):
    source = '''
        import functools

        @functools.total_ordering
        class Some:
            """What it is,

            at length.
            """

            a = 1; b = 2

            # Why.
            def __lt__(self, other):
                """Less."""
                return self.a < other.a
    '''
    (tmp_path / "some_spec.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(tmp_path)
    import some_spec

    assert lines(some_spec.Some) == 5
