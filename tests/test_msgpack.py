"""The native codec: the bytes of the specification, and S7: no bytes crash it, hang it, or make it take more than they are."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import random
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall._native import (
    MSGPACK_MAX_DEPTH,
    MSGPACK_MAX_UNSALTED_KEYS,
    MSGPACK_MIN_PACKED_FLOATS,
    msgpack_decode,
    msgpack_encode,
)
from holdall.errors import DecodeError, EncodeError
from holdall.state.values import ReadOnlyDict, ReadOnlyList
from tests.state_values import VALUES, same

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=40)
    | st.binary(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=MSGPACK_MIN_PACKED_FLOATS - 1)
        | st.dictionaries(st.text(max_size=5), inner, max_size=20)
    ),
    max_leaves=40,
)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="nil"),
        pytest.param(False, id="false"),
        pytest.param(True, id="true"),
        pytest.param(0, id="positive fixint, least"),
        pytest.param(127, id="positive fixint, most"),
        pytest.param(128, id="uint 8, least"),
        pytest.param(255, id="uint 8, most"),
        pytest.param(256, id="uint 16, least"),
        pytest.param(2**16 - 1, id="uint 16, most"),
        pytest.param(2**16, id="uint 32, least"),
        pytest.param(2**32 - 1, id="uint 32, most"),
        pytest.param(2**32, id="uint 64, least"),
        pytest.param(2**63, id="uint 64, beyond int 64"),
        pytest.param(2**64 - 1, id="uint 64, most"),
        pytest.param(-1, id="negative fixint, most"),
        pytest.param(-32, id="negative fixint, least"),
        pytest.param(-33, id="int 8, most"),
        pytest.param(-128, id="int 8, least"),
        pytest.param(-129, id="int 16, most"),
        pytest.param(-(2**15), id="int 16, least"),
        pytest.param(-(2**15) - 1, id="int 32, most"),
        pytest.param(-(2**31), id="int 32, least"),
        pytest.param(-(2**31) - 1, id="int 64, most"),
        pytest.param(-(2**63), id="int 64, least"),
        pytest.param(1.5, id="float 64"),
        pytest.param("", id="fixstr, empty"),
        pytest.param("a" * 31, id="fixstr, most"),
        pytest.param("a" * 32, id="str 8, least"),
        pytest.param("a" * 255, id="str 8, most"),
        pytest.param("a" * 256, id="str 16, least"),
        pytest.param("a" * (2**16 - 1), id="str 16, most"),
        pytest.param("a" * 2**16, id="str 32, least"),
        pytest.param("é" * 16, id="str 8, by bytes and not characters"),
        pytest.param("\U0001f600" * 70, id="str 16, four bytes each"),
        pytest.param(b"", id="bin 8, empty"),
        pytest.param(b"a" * 255, id="bin 8, most"),
        pytest.param(b"a" * 256, id="bin 16, least"),
        pytest.param(b"a" * (2**16 - 1), id="bin 16, most"),
        pytest.param(b"a" * 2**16, id="bin 32, least"),
        pytest.param([], id="fixarray, empty"),
        pytest.param([1] * 15, id="fixarray, most"),
        pytest.param([1] * 16, id="array 16, least"),
        pytest.param([1] * (2**16 - 1), id="array 16, most"),
        pytest.param([1] * 2**16, id="array 32, least"),
        pytest.param({}, id="fixmap, empty"),
        pytest.param({str(n): n for n in range(15)}, id="fixmap, most"),
        pytest.param({str(n): n for n in range(16)}, id="map 16, least"),
        pytest.param({str(n): n for n in range(2**16 - 1)}, id="map 16, most"),
        pytest.param({str(n): n for n in range(2**16)}, id="map 32, least"),
        pytest.param({1: 2, b"x": 3, None: 4, 1.5: 5, False: 6}, id="map, keys that are no str"),
        pytest.param([1.5, 2.5, 3], id="floats among others"),
        pytest.param([1.5] * (MSGPACK_MIN_PACKED_FLOATS - 1), id="floats, too few to pack"),
    ],
)
def test_every_width_of_the_specification_as_msgpack_writes_it(value):
    data = msgpack.packb(value)
    assert msgpack_encode(value) == data
    assert same(value, msgpack_decode(data))


@given(PLAIN)
def test_plain_values_as_msgpack_writes_and_reads_them(value):
    data = msgpack.packb(value, use_bin_type=True)
    assert msgpack_encode(value) == data
    assert same(msgpack.unpackb(data, strict_map_key=False), msgpack_decode(data))


@given(VALUES)
def test_what_goes_in_comes_out(value):
    data = msgpack_encode(value)
    assert same(value, msgpack_decode(data))
    assert same(value, msgpack_decode(data, frozen=True), read_only=True)


@pytest.mark.parametrize(
    "data", [b"\xca\x3f\xc0\x00\x00", b"\xd3\x00\x00\x00\x00\x00\x00\x00\x07", b"\xda\x00\x01a", b"\xde\x00\x00"]
)
def test_longer_forms_than_ours_are_read(data):
    assert msgpack_decode(data) == msgpack.unpackb(data)


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        pytest.param(b"", 0, id="empty"),
        pytest.param(b"\x92\x01", 1, id="an element is missing"),
        pytest.param(b"\x81\xa1a", 3, id="a value is missing"),
        pytest.param(b"\xa5abc", 1, id="a string is cut"),
        pytest.param(b"\xdb\xff\xff\xff\xffabc", 5, id="a string that declares 4 GB"),
        pytest.param(b"\xc6\xff\xff\xff\xffabc", 5, id="bytes that declare 4 GB"),
        pytest.param(b"\xdd\xff\xff\xff\xff\x01", 5, id="an array that declares 4 G elements"),
        pytest.param(b"\xdf\xff\xff\xff\xff\x01", 5, id="a map that declares 4 G pairs"),
        pytest.param(b"\xc9\xff\xff\xff\xff\x03\x90", 6, id="an extension that declares 4 GB"),
        pytest.param(b"\x92" + b"\x94" * 2 + b"\x00" * 7, 3, id="arrays that together declare more than there is"),
        pytest.param(b"\xc1", 0, id="the byte that is never used"),
        pytest.param(b"\x01\x01", 1, id="trailing bytes"),
        pytest.param(b"\x82\xa1a\x01\xa1a\x02", 0, id="a key twice"),
        pytest.param(b"\x82\x01\x01\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00\x02", 0, id="equal keys of two types"),
        pytest.param(b"\xc7\x03\x04\x92\x01\x01", 0, id="an element of a set twice"),
        pytest.param(b"\x81\x90\x01", 0, id="a list as key"),
        pytest.param(b"\xc7\x02\x04\x91\x90", 0, id="a list in a set"),
        pytest.param(b"\xa2\xc3\x28", 1, id="not UTF-8"),
        pytest.param(b"\x91\xa4ab\xed\xa0", 4, id="a surrogate in UTF-8"),
        pytest.param(b"\xd4\x00\x00", 0, id="extension 0"),
        pytest.param(b"\xd6\xff\x00\x00\x00\x00", 0, id="a timestamp, which is not ours"),
        pytest.param(b"\xd4\x03\x01", 0, id="a tuple that is no array"),
        pytest.param(b"\xc7\x03\x03\x91\x01\x01", 0, id="a tuple with more in its body"),
        pytest.param(b"\x92\xd4\x03\x91\x01", 4, id="a tuple that reaches beyond its body"),
        pytest.param(b"\xd4\x01\x05", 0, id="a big integer that is small"),
        pytest.param(
            b"\xc7\x09\x01\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff", 0, id="a big integer with zeros before it"
        ),
        pytest.param(b"\xd4\x06\x05", 0, id="a datetime of one byte"),
        pytest.param(b"\xd6\x07\x00\x00\x0d\x01", 0, id="a date in month 13"),
        pytest.param(b"\xc7\x03\x0aabc", 0, id="a Decimal that is no number"),
        pytest.param(b"\xc7\x03\x0babc", 0, id="a UUID of three bytes"),
        pytest.param(b"\xc7\x03\x0dabc", 0, id="floats of three bytes"),
        pytest.param(b"\xc7\x03\x0fi\x04a", 0, id="an array of a quarter item"),
        pytest.param(b"\xc7\x03\x0fQQQ", 0, id="an array of another item size"),
        pytest.param(b"\xc7\x0d\x08\x00\x00\x00\x00\x00\x00\x00\x00zNo/P", 0, id="a time zone that nobody knows"),
    ],
)
def test_what_is_wrong_is_refused_at_its_byte(data, offset):
    for frozen in (False, True):
        with pytest.raises(DecodeError) as caught:
            msgpack_decode(data, frozen=frozen)
        assert caught.value.offset == offset, str(caught.value)
        assert f"(at byte {offset})" in str(caught.value)


def _nested(depth):
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


WRAPS = {
    "array": lambda data: b"\x91" + data,
    "map": lambda data: b"\x81\x01" + data,
    "tuple": lambda data: b"\xc9" + (len(data) + 1).to_bytes(4, "big") + b"\x03\x91" + data,
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_depth_has_a_limit_on_a_small_stack(wrap):
    """A thread of 128 KiB reads and writes to the limit, and refuses what lies beyond it, to 100,000 levels."""
    outcome = []

    def work():
        data = b"\x90"
        for _ in range(MSGPACK_MAX_DEPTH - 1):
            data = wrap(data)
        deepest = msgpack_decode(data)
        outcome.append(msgpack_decode(msgpack_encode(deepest)) == deepest if wrap is WRAPS["array"] else True)
        outcome.append(len(msgpack_encode(deepest)) > 0)
        msgpack_decode(data, frozen=True)
        for more in (1, 1000):
            for _ in range(more):
                data = wrap(data)
            try:
                msgpack_decode(data)
            except DecodeError:
                outcome.append(True)
        for value in ([deepest], {"a": deepest}, (deepest,)):
            try:
                msgpack_encode(value)
            except EncodeError as exc:
                outcome.append("deeper" in str(exc))
        try:
            msgpack_decode(b"\x91" * 100_000)
        except DecodeError:
            outcome.append(True)

    before = threading.stack_size(128 * 1024)
    try:
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 2000))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert outcome == [True] * 8


def test_a_list_that_holds_itself_is_refused():
    value = []
    value.append({"x": value})
    with pytest.raises(EncodeError, match="deeper"):
        msgpack_encode(value)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            b"\xdd\x00\x0f\x00\x00" + b"\xdd\x00\x0f\x00\x00" * 400 + b"\x01" * 0x0F0000, id="arrays within arrays"
        ),
        pytest.param(b"\xdf\x00\x07\xff\xff" + b"\x01" * 2**20, id="a map"),
        pytest.param(b"\xdb\x7f\xff\xff\xff" + b"a" * 2**20, id="a string"),
        pytest.param(b"\xc9\x00\x10\x00\x00\x04\xdd\x00\x0f\xff\x00" + b"\x01" * 2**20, id="a set"),
    ],
)
def test_memory_stays_of_the_order_of_the_input(data):
    gc.collect()
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            msgpack_decode(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(data)


def test_keys_that_collide_cost_no_quadratic_time():
    """Hashes of ints are not salted: these all fall on one another, and cost minutes without a limit."""
    modulus = 2**61 - 1
    keys = [msgpack_encode(modulus * n) for n in range(2**20, 2**20 + 200_000)]
    started = time.perf_counter()
    for data in (
        b"\xdf" + len(keys).to_bytes(4, "big") + b"".join(key + b"\x01" for key in keys),
        b"\xc9"
        + (sum(map(len, keys)) + 5).to_bytes(4, "big")
        + b"\x04\xdd"
        + len(keys).to_bytes(4, "big")
        + b"".join(keys),
    ):
        with pytest.raises(DecodeError, match="keys of one hash"):
            msgpack_decode(data)
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("make", [lambda keys: dict.fromkeys(keys, 1), set, frozenset])
def test_a_few_keys_may_collide_and_what_is_written_is_read(make):
    modulus = 2**61 - 1
    colliding = [modulus * n for n in range(1, 64)]
    for value in (make(colliding), make([*range(1000), *colliding[:15]])):
        assert msgpack_decode(msgpack_encode(value)) == value
    for value in (make([*colliding, 0]), make([*range(64), *colliding[:16]])):
        with pytest.raises(EncodeError, match="keys of one hash"):
            msgpack_encode(value)


def test_more_keys_than_may_collide_are_not_read():
    n = MSGPACK_MAX_UNSALTED_KEYS + 1
    data = b"\xde" + n.to_bytes(2, "big") + b"".join(msgpack_encode(key) + b"\x01" for key in range(n))
    with pytest.raises(DecodeError, match=f"more than {MSGPACK_MAX_UNSALTED_KEYS}"):
        msgpack_decode(data)


@pytest.mark.parametrize(
    "make", [lambda n: dict.fromkeys(range(n)), lambda n: set(range(n)), lambda n: frozenset(range(n))]
)
def test_as_many_keys_are_written_as_are_read(make):
    value = make(MSGPACK_MAX_UNSALTED_KEYS)
    assert msgpack_decode(msgpack_encode(value)) == value
    with pytest.raises(EncodeError, match=f"more than {MSGPACK_MAX_UNSALTED_KEYS}"):
        msgpack_encode(make(MSGPACK_MAX_UNSALTED_KEYS + 1))
    many = dict.fromkeys(map(str, range(100_000)))
    assert msgpack_decode(msgpack_encode(many)) == many
    assert msgpack_decode(msgpack_encode(set(many))) == set(many)


def test_no_method_of_a_callers_object_is_called():
    """A hook that changes the list being encoded crashes peers; here none is called."""

    class Trap:
        def __getattribute__(self, name):
            called.append(name)
            return object.__getattribute__(self, name)

        def _touch(self, *_args):
            called.append(self)

        __len__ = __iter__ = __hash__ = __str__ = __repr__ = __int__ = __index__ = __bytes__ = _touch

    class ListTrap(Trap, list):
        pass

    class DictTrap(Trap, dict):
        pass

    called = []
    for trap in (Trap(), ListTrap([1]), DictTrap(a=1)):
        with pytest.raises(EncodeError):
            msgpack_encode([1, trap])
    assert called == []


def test_a_zone_that_runs_code_is_refused_before_it_does():
    class Zone(dt.tzinfo):
        def utcoffset(self, _when):
            victim.clear()
            return dt.timedelta(0)

    victim = [dt.datetime(2026, 1, 1, tzinfo=Zone()), *[[n] for n in range(1000)]]
    with pytest.raises(EncodeError, match="time zone"):
        msgpack_encode(victim)
    assert len(victim) == 1001


def test_a_list_changed_by_another_thread_ends_in_bytes_or_in_an_error():
    value = {"a": [list(range(50)) for _ in range(200)], "d": {str(n): [n] for n in range(200)}}
    stop = threading.Event()

    def change():
        n = 0
        while not stop.is_set():
            n += 1
            value["a"].append([n])
            value["a"].pop(0)
            value["d"][str(n % 400)] = [n]
            value["d"].pop(str((n + 7) % 400), None)

    thread = threading.Thread(target=change)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(300):
            # What is rare calls into Python, where another thread may come in.
            data = msgpack_encode([value, {"x": (1, 2**70)}, value])
            assert len(msgpack_decode(data)) == 3
    except EncodeError as exc:
        assert "changed while it was being encoded" in str(exc)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(before)


def _corruptions(rng, blob, n):
    for _ in range(n):
        data = bytearray(blob)
        match rng.randrange(5):
            case 0:
                del data[rng.randrange(len(data)) :]
            case 1:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 2:
                for _ in range(rng.randrange(1, 8)):
                    data[rng.randrange(len(data))] = rng.randrange(256)
            case 3:
                at = rng.randrange(len(data))
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case _:
                a, b = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
                del data[a:b]
        yield bytes(data)


FUZZED = {
    "role": "user",
    "content": [{"type": "text", "text": "é" * 20}, {"n": [1, -1, 2**40, 2**70, 1.5, None, True]}],
    "tuple": (1, (2,)),
    "set": {1, "a"},
    "frozen": frozenset({b"x"}),
    "floats": [n / 3 for n in range(20)],
    "keys": {1: 2, (1, 2): 3},
    "bytes": b"\x00\xff",
    "surrogate": "\ud800",
}


def test_ten_thousand_corrupted_blobs_end_in_a_value_or_an_error():
    """Error or data of the same kinds, never a crash; what is read can be written, and reads the same again."""
    rng = random.Random(20261129)
    blob = msgpack_encode(FUZZED)
    refused = 0
    for n, data in enumerate(_corruptions(rng, blob, 10_000)):
        try:
            value = msgpack_decode(data, frozen=bool(n % 2))
        except DecodeError as exc:
            assert 0 <= exc.offset <= len(data)
            refused += 1
        else:
            # By length: the order of a set is not that of the set it was made of.
            again = msgpack_encode(value)
            assert len(msgpack_encode(msgpack_decode(again))) == len(again)
    assert 5_000 < refused < 10_000


@given(st.binary(max_size=300))
def test_any_bytes_end_in_a_value_or_an_error(data):
    try:
        msgpack_decode(data)
    except DecodeError as exc:
        assert 0 <= exc.offset <= len(data)


def test_equal_keys_are_shared_and_not_confused():
    """The cache of keys: same slot, other text; a prefix; the longest that is kept, and longer ones."""
    keys = [f"{'k' * 20}{n:04}{'k' * 8}" for n in range(3000)] + ["a", "ab", "abc", "k" * 32, "k" * 33, "é", ""]
    for _ in range(2):
        for key in keys:
            assert list(msgpack_decode(msgpack_encode({key: 1}))) == [key]
    one, two = (next(iter(msgpack_decode(msgpack_encode({"role": 1})))) for _ in range(2))
    assert one is two


def test_keys_written_before_are_written_the_same_whatever_came_between():
    """Kept by the object: new keys come to stand where others stood, and many share a place."""
    rng = random.Random(5)
    for _ in range(200):
        names = {rng.choice("aé\u65e5\U0001f600") * rng.randrange(40) + str(rng.randrange(1000)) for _ in range(300)}
        value = dict.fromkeys(names, "x")
        for _ in range(2):
            assert msgpack_encode(value) == msgpack.packb(value)
    # The longest that is kept has 31 bytes; a key with a lone surrogate has another form, every time.
    for n in range(29, 35):
        for key in ("k" * n, "k" * (n - 2) + "é"):
            assert [msgpack_encode({key: 1}) for _ in range(2)] == [msgpack.packb({key: 1})] * 2
    odd = {"\ud800": 1}
    assert [msgpack_decode(msgpack_encode(odd)) for _ in range(2)] == [odd, odd]


def test_documents_of_any_size_after_one_another():
    """Small ones are written into memory that is kept, large ones into a size that is guessed from the last."""
    texts = [b"x" * n for n in (0, 65_530, 65_531, 65_532, 65_536, 200_000, 70_000, 3_000_000, 5, 66_000, 300_000)]
    for text in texts:
        for value in (text, text.decode(), [text[:1000].decode()] * (len(text) // 1000)):
            assert msgpack_encode(value) == msgpack.packb(value)


@pytest.mark.skipif(sys.platform != "linux", reason="limits its own memory as Linux does")
def test_a_document_that_memory_cannot_hold_is_a_memory_error():
    """Wherever the room ends: in a list, in a tuple, whose length is filled in later, or in a dict."""
    code = (
        "import resource\n"
        "from holdall._native import msgpack_encode\n"
        "big = ['x' * 1_000_000] * 400\n"
        "resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))\n"
        "for value in (big, (0, tuple(big)), {'a': {'b': big}, 'c': (1, {2})}):\n"
        "    try:\n"
        "        print(len(msgpack_encode(value)))\n"
        "    except MemoryError as error:\n"
        "        print(error, len(msgpack_encode([1, (2,)])))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "no memory for the encoded document 10\n" * 3


def test_frozen_is_read_only_all_the_way_down_and_only_where_asked():
    data = msgpack_encode({"a": {"x": [1]}, "b": {"x": [1]}})
    value = msgpack_decode(data, frozen_keys=("b",))
    assert [type(value), type(value["a"]), type(value["b"])] == [dict, dict, ReadOnlyDict]
    assert (type(value["a"]["x"]), type(value["b"]["x"])) == (list, ReadOnlyList)
    assert type(msgpack_decode(data, frozen=True)["a"]["x"]) is ReadOnlyList


def grown_by_errors_and_values() -> tuple[int, list[str]]:
    """Bytes that the least of three rounds of decoding and encoding left behind, and where they were taken."""
    blob = msgpack_encode(FUZZED)
    bad = [blob[:n] for n in range(0, len(blob), 3)]

    def work() -> None:
        for data in (blob, *bad):
            try:
                msgpack_decode(data)
                msgpack_decode(data, frozen=True)
            except DecodeError:
                pass
        with contextlib.suppress(EncodeError):
            msgpack_encode([FUZZED, [object()]])

    def grown() -> tuple[int, list[str]]:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(10):
                work()
            gc.collect()
            after = tracemalloc.get_traced_memory()[0]
            return after - before, [str(one) for one in tracemalloc.take_snapshot().statistics("lineno")[:5]]
        finally:
            tracemalloc.stop()

    for _ in range(3):
        work()
    gc.collect()
    # A leak is in every round.
    return min(grown() for _ in range(3))


def test_nothing_leaks():
    """Values, errors and half-made containers give back what they took. Alone in a process, whose tables nobody else fills."""
    code = "from tests.test_msgpack import grown_by_errors_and_values; print(*grown_by_errors_and_values(), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]
    )
    least, where = done.stdout.split("\n", 1)
    assert int(least) < 700, where


def test_the_limits_hold_in_a_fresh_process_with_its_standard_limits():
    code = "from holdall._native import *; import holdall._native as n; n.msgpack_decode(b'\\x91' * 499 + b'\\x90')"
    subprocess.run([sys.executable, "-c", code], check=True)
