"""Events in the store."""

from nnfuzz.records.rows import EventRow
from nnfuzz.testcase.identity import Numbered

LATER = EventRow(Numbered(1, 5), "death", "toy", "compile", "SIGSEGV", "segmentation fault")
EARLIER = EventRow(Numbered(1, 9), "fault", message="a slip", details="Traceback ...")


def test_events_come_back_in_the_order_of_their_times(store):
    assert store.events.counts() == {}
    store.events.add(LATER, at=20.0)
    store.events.add(EARLIER, at=10.0)
    assert store.events.rows() == [EARLIER, LATER]
    assert store.events.counts() == {"death": 1, "fault": 1}
