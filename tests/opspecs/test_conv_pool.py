from __future__ import annotations

import numpy as np
from nnfuzz.opspecs.pool import GlobalMaxPool

from tests.opspecs.samples import ramp


def test_global_maximum():
    assert GlobalMaxPool().torch(ramp(1, 2, 3)).flatten().tolist() == [2.0, 5.0]
    assert np.shape(GlobalMaxPool().torch(ramp(1, 2, 3, 4))) == (1, 2, 1, 1)
