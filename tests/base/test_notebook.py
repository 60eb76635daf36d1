"""Tables for notebooks escape all text."""

from nnfuzz.base.notebook import html_table


def test_cells_headings_and_titles_are_escaped():
    table = html_table([("<b>", 3)], ("a & b",))
    assert "&lt;b&gt;" in table and ">3</td>" in table and "<th>a &amp; b</th>" in table


def test_a_table_without_headings_has_no_head():
    assert "<th>" not in html_table([("x",)])
