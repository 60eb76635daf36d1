"""Headlines: what a maintainer would call an error, in messages of many systems."""

import pytest

from nnfuzz.triage.headline import MOST_CHARACTERS, headline
from nnfuzz.triage.signature import failures
from tests.triage.spoken import messages

TITLED = [said for said in messages() if said.title]


def test_there_are_titles_of_many_systems():
    assert len(TITLED) >= 60 and len({said.system for said in TITLED}) >= 10


@pytest.mark.parametrize("said", TITLED, ids=lambda said: said.id)
def test_a_title_is_what_a_maintainer_would_write(said):
    (failure,) = failures([said.outcome])
    how = f"SIGABRT in {said.stage}" if said.kind == "crash" else str(said.stage)
    assert failure.signature.title == f"unknown: {said.title} ({how})"


@pytest.mark.parametrize(
    ("text", "statement", "place"),
    [
        ("a/b.cc:8 virtual n::S n::Fuse::Do(n::G&) const Bad 'min'", "Bad 'min'", "n::Fuse::Do"),
        ("relu.cc:12 Conv is not supported", "Conv is not supported", "relu.cc"),
        ("While running a Foo. Name:'n_1' Status Message: invalid shape", "invalid shape", ""),
        ('Node, ("n", Foo) : ("x": f(g),) -> ("y": f(g),) , Error No Foo', "No Foo", ""),
        ("Error in layer 2, sizes differ: 3, 4", "sizes differ: 3, 4", ""),
        ("expected one (e.g. a or b) of them", "expected one (e.g. a or b) of them", ""),
        ("n >= 0 was false. Output is negative", "Output is negative", ""),
        ("a.cc:3 n::C::C(int) low <= high was false", "condition low <= high failed", "n::C::C"),
        ("Check failed: p != 0 (0 vs. 0) : Divide by zero", "Divide by zero", ""),
        ("While checking '<n: x>': Node (n): no 'value' is known", "no 'value' is known", ""),
        ('unknown ir.Op(span=None, name="a.b", n=f(1))', "unknown ir.Op 'a.b'", ""),
        ("cannot read '/tmp/t8x_/m.bin': none", "cannot read 'TMP': none", ""),
        ("vector::at", "vector::at", ""),
        (": Input [Begin=3] is bad here", "Input [Begin=3] is bad here", ""),
        (", please report it. There are no such examples", "There are no such examples", ""),
        ("must be one of them (e.g. ", "must be one of them", ""),
        ("::ns::f is no such thing", "::ns::f is no such thing", ""),
        ("", "", ""),
    ],
)  # fmt: skip
def test_what_is_around_a_statement_goes(text, statement, place):
    made = headline(text)
    assert (made.statement, made.place) == (statement, place)


def test_a_long_message_is_cut_between_statements_or_words():
    head = "in a list of them: " + "tensor(float), " * 12
    cause = "Unrecognized attribute left_window_size for operator Attention"
    assert headline(f"In it: {head.rstrip(', ')}; {cause}").statement == cause
    assert (
        headline(f"The first sentence is whole. {'x y ' * 200}").statement
        == "The first sentence is whole"
    )
    longest = headline(f"{'word ' * 300}{'x' * 900} is no number of them").statement
    assert longest.removesuffix(" ...").split()[-1] in ("word", "them")
    made = headline("the words (e.g. these) " * 60).statement
    assert len(made) <= MOST_CHARACTERS + 4 and made.endswith(" ...")
    assert made.removesuffix(" ...").split()[-1] in ("the", "words", "these)")


def test_values_of_the_model_are_letters():
    told = "cannot add 'v12' to v3, since v12 is of conv_v3 and tanh"
    wanted = "cannot add 'x' to y, since x is of conv_v3 and tanh"
    assert headline(told, ["v3", "v12", "tanh"]).statement == wanted
