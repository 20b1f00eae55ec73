"""S7 for whole states: bytes that are not a state end in an error of ours, in every format, and never in a crash."""

from __future__ import annotations

import random

import pytest

from holdall.errors import HoldallError
from holdall.state import StateSerializer
from tests.make_frozen_states import expected

FORMATS = ["msgpack", "json", "protobuf"]


def damaged(rng, blob):
    data = bytearray(blob)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.randrange(256)
            case 2:
                data[at:at] = bytes(rng.choices(data, k=rng.randrange(1, 9)))
            case _:
                del data[at : at + rng.randrange(1, 9)]
    return bytes(data)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_states_end_in_an_error_or_in_a_state(name, full):
    rng = random.Random(20261129)
    serializer = StateSerializer(name, log_format=name)
    state = expected(3)
    snapshot = serializer.snapshot(state)
    blobs = [serializer.dumps(state), snapshot.head, *(data for _, data in snapshot.append)]
    refused = 0
    n = 12_000 if full else 3_400
    for _ in range(n):
        which = rng.randrange(len(blobs))
        data = damaged(rng, blobs[which])
        try:
            if which == 0:
                found = serializer.loads(data)
            elif which == 1:
                found = serializer.restore(data, snapshot.append)
            else:
                log = list(snapshot.append)
                log[which - 2] = (log[which - 2][0], data)
                found = serializer.restore(snapshot.head, log)
        except HoldallError:
            refused += 1
        else:
            # What was read can be written, and reads the same again (by length: NaN is not equal, sets have no order).
            data = serializer.dumps(found)
            assert len(serializer.dumps(serializer.loads(data))) == len(data)
    assert n // 4 < refused < n
