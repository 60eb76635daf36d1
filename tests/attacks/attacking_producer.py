"""A stub producer whose models are attacks, one of each kind between good ones."""

from stub_producer import Stub

ATTACKS = """
    deep_json shape_lies message_is_a_number early_reply page_is_garbage evil_text
    raw_surrogates object_output remove_scratch daemon_and_abort
""".split()


def service(seed, config, cache=""):
    plan = [doc for attack in ATTACKS for doc in ("nothing", attack)]
    return Stub(seed, plan)
