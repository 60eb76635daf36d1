"""Which refusals speak for a whole signature."""

from nnfuzz.feedback.support import CONFIRMED, Statements, refusal_statement
from nnfuzz.ir.support_key import SupportKey

KEYS = [SupportKey("direct", op, "(float64)->float64") for op in ("Acos", "Asin", "Atan")]


def refusal(key, where="in a test"):
    return f"unsupported {where}: no implementation for {key.operator}(22) node 'n_3' of double"


def confirmed():
    """What a compiler has statements of as many signatures as are enough."""
    statements = Statements()
    for key in KEYS[:CONFIRMED]:
        statements.add(key, refusal(key, "in compile at O0"))
    return statements


def test_a_statement_is_without_the_words_of_the_model():
    (text,) = {refusal_statement(refusal(key), key.operator) for key in KEYS}
    assert refusal_statement("unsupported in a test: mode cubic is not supported") != text


def test_it_is_general_once_it_held_for_several_signatures():
    statements = confirmed()
    assert not statements.general(KEYS[2], refusal(KEYS[2]))
    statements.settle()
    assert statements.general(KEYS[2], refusal(KEYS[2]))
    assert not statements.general(KEYS[2], "unsupported in a test: rank 5")


def test_a_model_that_runs_disproves_it():
    statements = confirmed()
    statements.add(KEYS[2], refusal(KEYS[2]))
    statements.disprove(KEYS[2])
    statements.settle()
    assert not statements.general(KEYS[2], refusal(KEYS[2]))
