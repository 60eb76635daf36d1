"""Which refusals speak for a whole signature."""

from nnfuzz.feedback.statements import CONFIRMED, Statements, statement

KEYS = [f"direct:{op}(float64)->float64" for op in ("Acos", "Asin", "Atan")]


def refusal(key, where="in a test"):
    operator = key.partition(":")[2].partition("(")[0]
    return f"unsupported {where}: no implementation for {operator}(22) node 'n_3' of double"


def confirmed():
    """What a compiler has said of as many signatures as are enough."""
    said = Statements()
    for key in KEYS[:CONFIRMED]:
        said.met(key, refusal(key, "in compile at O0"))
        said.refused(key)
    return said


def test_a_statement_is_without_the_words_of_the_model():
    assert len({statement(key, refusal(key)) for key in KEYS}) == 1
    other = "unsupported in a test: mode cubic is not supported"
    assert statement(KEYS[0], other) != statement(KEYS[0], refusal(KEYS[0]))


def test_it_is_general_once_it_held_for_several_signatures():
    said = confirmed()
    assert not said.general(KEYS[2], refusal(KEYS[2]))
    said.settle()
    assert said.general(KEYS[2], refusal(KEYS[2]))
    assert not said.general(KEYS[2], "unsupported in a test: rank 5")


def test_a_model_that_runs_disproves_it():
    said = confirmed()
    said.met(KEYS[2], refusal(KEYS[2]))
    said.ran(KEYS[2])
    said.settle()
    assert not said.general(KEYS[2], refusal(KEYS[2]))
