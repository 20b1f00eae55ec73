"""Small maps and lists are read in one go, and dicts of the same keys share them: nobody can tell but by the time it takes.

The oracle is the same document within so many lists that it is read step by step.
"""

from __future__ import annotations

import gc
import random
import subprocess
import sys

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall._native import MSGPACK_MAX_DEPTH, msgpack_decode, msgpack_encode
from holdall.errors import DecodeError
from tests.state_values import same

# Within these there is no room for what is read in one go.
AROUND = MSGPACK_MAX_DEPTH - 6

NAMES = ["role", "content", "tool_calls", "tool_call_id", "id", "type", "", "é", "k" * 31, "k" * 32, "k" * 15, "k" * 16]
ATOMS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.integers(-200, 300)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["user", "x" * 31, "x" * 32, "x" * 255, "x" * 256, "é" * 40])
    | st.binary(max_size=3)
)
MESSAGES = st.recursive(
    ATOMS,
    lambda inner: (
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=12)
        | st.dictionaries(st.sampled_from(NAMES) | st.integers(0, 5), inner, max_size=4)
        | st.lists(inner, max_size=9)
    ),
    max_leaves=12,
)


def depth(value: object) -> int:
    """Containers inside each other."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


# With the list around them, as many levels as there is room for.
SHALLOW = MESSAGES.filter(lambda value: depth(value) <= MSGPACK_MAX_DEPTH - AROUND - 1)


def step_by_step(data: bytes, *, frozen: bool = False) -> object:
    """What `msgpack_decode` makes of `data`, or its offset and reason, where nothing is read in one go."""
    try:
        value = msgpack_decode(b"\x91" * AROUND + data, frozen=frozen)
    except DecodeError as error:
        return error.offset - AROUND, error.reason
    for _ in range(AROUND):
        (value,) = value
    return value


def at_once(data: bytes, *, frozen: bool = False) -> object:
    try:
        return msgpack_decode(data, frozen=frozen)
    except DecodeError as error:
        return error.offset, error.reason


@given(st.lists(SHALLOW, max_size=6), st.booleans())
def test_maps_whose_keys_change_midway_are_read_as_step_by_step(values, frozen):
    data = msgpack.packb(values)
    for value in (step_by_step(data, frozen=frozen), at_once(data, frozen=frozen)):
        assert same(values, value, read_only=frozen)
        assert msgpack_encode(value) == data


@given(MESSAGES, st.integers(0, 30))
def test_values_of_any_depth_are_read_and_written(value, n):
    for level in range(n):
        value = {"a": value, "b": level} if level % 3 else [value, level]
    data = msgpack.packb(value)
    assert msgpack_encode(value) == data
    assert same(value, msgpack_decode(data))
    assert same(value, msgpack_decode(data, frozen=True), read_only=True)


ROUND = [
    {"role": "user", "content": "naïve", "n": 1, "x": 2.5, "none": None, "is": True},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "x" * 300, "list": [-1, -200, 70_000, 2**40, [], {}]},
]


@pytest.mark.parametrize("frozen", [False, True])
def test_every_truncation_and_every_changed_byte_ends_alike(frozen):
    data = msgpack.packb(ROUND)
    assert same(ROUND, at_once(data))
    for n in range(len(data)):
        assert at_once(data[:n], frozen=frozen) == step_by_step(data[:n], frozen=frozen)
    rng = random.Random(3)
    for n in (*range(len(data)), *(rng.randrange(len(data)) for _ in range(3000))):
        changed = data[:n] + bytes([rng.randrange(256)]) + data[n + 1 :]
        expected = step_by_step(changed, frozen=frozen)
        if isinstance(expected, tuple) and "nested" in expected[1]:
            continue  # deeper than there is room for where it is read step by step
        # A NaN is no value that is equal to itself.
        assert repr(at_once(changed, frozen=frozen)) == repr(expected)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x82\xa1a\x01\xa1a\x02", id="a key twice"),
        pytest.param(b"\x91\x83\xa1a\x01\xa1b\x02\xa1a\x03", id="a key twice, another between"),
        pytest.param(b"\x83\xa0\x01\xa1b\x02\xa0\x03", id="the empty key twice"),
        pytest.param(b"\x92\x82\xa1a\x01\xa1b\x02\x82\xa1a\x01\xa1a\x02", id="a key twice in the second map"),
        pytest.param(b"\x81\xa1a\x82\x01\x02\x01\x03", id="an int twice"),
        pytest.param(b"\x81\xa1a\x82\x01\x02\xcb\x3f\xf0" + bytes(6) + b"\x03", id="equal keys of two types"),
        pytest.param(b"\x81\x81\xa1a\x01\x02", id="a map as key"),
        pytest.param(b"\x81\xa2\xff\xff\x01", id="a key that is no UTF-8"),
        pytest.param(b"\x82\xa1a\xa2\xff\xff\xa1b\x01", id="a value that is no UTF-8"),
        pytest.param(b"\x81\xa1a\xdd\xff\xff\xff\xff\x01", id="4 G elements"),
        pytest.param(b"\x81\xa1a\xdc\xff\xff\x01", id="64 K elements"),
        pytest.param(b"\x81\xa1a\xdf\xff\xff\xff\xff\x01", id="4 G pairs"),
        pytest.param(b"\x81\xa1a\xdb\xff\xff\xff\xffx", id="a string of 4 GB"),
        pytest.param(b"\x92" + b"\x94" * 2 + b"\x00" * 7, id="lists that together declare more than there is"),
        pytest.param(b"\x93\x81\xa1a\x01", id="a map within a list that goes on"),
        pytest.param(b"\x82\xa1a\x81\xa1b\x01", id="a map within a map that goes on"),
        pytest.param(b"\x81\xa1a\xc1", id="the byte that is never used"),
        pytest.param(b"\x81\xa1a\x01\x01", id="trailing bytes"),
        pytest.param(b"\x8f" + b"".join(b"\xa1%c\x01" % c for c in b"abcdefghijklmno"), id="many keys"),
        pytest.param(b"\x81\xa1a" + b"\xdc\x01\x2c" + b"\x01" * 300, id="many elements"),
    ],
)
def test_what_is_wrong_or_rare_ends_as_step_by_step(data):
    for _ in range(3):  # keys are learnt from what was read before
        for frozen in (False, True):
            assert at_once(data, frozen=frozen) == step_by_step(data, frozen=frozen)


def test_more_shapes_than_are_kept_replace_each_other():
    """Within a map others are read, whose keys may come to stand where its own were."""
    rng = random.Random(9)
    names = [f"{'n' * rng.randrange(12)}{n}" for n in range(2000)]

    def a_map(levels: int) -> dict[str, object]:
        return {
            rng.choice(names): a_map(levels - 1) if levels and rng.random() < 0.7 else rng.randrange(100)
            for _ in range(rng.randrange(1, 11))
        }

    for _ in range(300):
        value = a_map(3)
        data = msgpack.packb(value)
        assert same(value, msgpack_decode(data))
        assert same(value, msgpack_decode(data, frozen=True), read_only=True)


KEYS = st.sampled_from(["role", "content", "new", "other"])
CHANGES = st.lists(
    st.tuples(st.sampled_from(["set", "del", "pop", "popitem", "setdefault", "update", "or", "copy", "clear"]), KEYS),
    max_size=12,
)


@given(st.lists(KEYS, unique=True, min_size=1), CHANGES)
def test_a_dict_of_shared_keys_changes_as_any_other(keys, changes):
    model = {key: [n] for n, key in enumerate(keys)}
    data = msgpack.packb(model)
    others = [msgpack_decode(data) for _ in range(3)]
    made = msgpack_decode(data)
    for n, (what, key) in enumerate(changes):
        results = []
        for one in (model, made):
            match what:
                case "set":
                    one[key] = n
                case "del":
                    results.append(one.pop(key, None) if key not in one else one.__delitem__(key))
                case "pop":
                    results.append(one.pop(key, "none"))
                case "popitem":
                    results.append(one.popitem() if one else None)
                case "setdefault":
                    results.append(one.setdefault(key, n))
                case "update":
                    one.update({key: n, "more": n})
                case "or":
                    results.append(list((one | {key: n}).items()))
                case "copy":
                    results.append(list(one.copy().items()))
                case "clear":
                    one.clear()
        assert results[: len(results) // 2] == results[len(results) // 2 :]
        assert list(made.items()) == list(model.items())
        assert list(reversed(made)) == list(reversed(model))
        assert made == model
        assert msgpack_encode(made) == msgpack.packb(model)
    assert all(list(other.items()) == [(key, [n]) for n, key in enumerate(keys)] for other in others)


@pytest.mark.skipif(
    sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info < (3, 15),
    reason="keys are shared on CPython 3.11 to 3.14 alone",
)
@pytest.mark.parametrize("n", [1, 5, 6, 10])
def test_keys_are_shared_where_the_layout_is_known(n):
    """A dict with a table of its own takes 184 bytes or more, one that shares its keys a fixed part and a word for each value."""
    usual = {f"key {at}": at for at in range(n)}
    for _ in range(20):  # keys of one map may take each other's place at first
        made = msgpack_decode(msgpack.packb([usual, usual]))
    assert all(sys.getsizeof(one) == 64 + 8 * n < sys.getsizeof(usual) for one in made)


def test_a_dict_of_shared_keys_may_be_a_namespace():
    """Where the interpreter looks up names by the place where it found them the last time."""

    class Thing:
        pass

    pairs = {f"name{n}": n for n in range(4)}
    for _ in range(3):
        thing, scope = Thing(), msgpack_decode(msgpack.packb(pairs))
        thing.__dict__ = msgpack_decode(msgpack.packb(pairs))
        for n in range(50):
            assert (thing.name0, thing.name3) == (n, 3)
            thing.name0 += 1
            exec("name1 += 1\ndef read():\n    return name1 + name2", scope)  # noqa: S102 - a namespace is the point
            assert scope["read"]() == scope["name1"] + 2 == n + 4
        thing.other = 1
        del thing.name2
        assert list(vars(thing)) == ["name0", "name1", "name3", "other"]
        assert dict(**thing.__dict__) == {"name0": 50, "name1": 1, "name3": 3, "other": 1}


@given(SHALLOW.filter(depth), st.booleans())
def test_the_collector_knows_what_it_has_to(value, frozen):
    def tracked(value: object) -> list[bool]:
        values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [gc.is_tracked(value), *(one for inner in values for one in tracked(inner))]

    data = msgpack.packb(value)
    assert tracked(at_once(data, frozen=frozen)) == tracked(step_by_step(data, frozen=frozen))


@pytest.mark.parametrize("n", [0, 1, 2, 7, 10, 11, 31, 32, 33, 255, 256, 65_535, 65_536])
def test_a_text_is_a_str_like_any_other(n):
    text = "ab" * (n // 2) + "c" * (n % 2)
    (made,) = msgpack_decode(msgpack.packb({"k": text})).values()
    assert (made, type(made), hash(made), len(made), made.isascii()) == (text, str, hash(text), n, True)
    assert sys.getsizeof(made) == sys.getsizeof(text[:1] + text[1:])
    assert (made + "x", made.encode(), made[::-1], {made: 1}[text]) == (text + "x", text.encode(), text[::-1], 1)


def test_nothing_is_written_where_it_does_not_belong():
    """The interpreter's own checks of its memory, on dicts that are read, changed, copied and ended."""
    code = """
import gc, pickle, copy, sys
from holdall._native import msgpack_decode, msgpack_encode
names = [f"k{n}" for n in range(14)]
kept = []
for n in range(13):
    value = {name: [name * 20, {"a": n}] for name in names[:n]}
    data = msgpack_encode([value, value, {"a": value}])
    for frozen in (False, True):
        made = msgpack_decode(data, frozen=frozen)
        assert made == [value, value, {"a": value}], made
        assert [pickle.loads(pickle.dumps(one)) for one in made] == made == copy.deepcopy(made)
        assert sys.getsizeof(made[0]) > 0
        kept.append(made)
        if not frozen:
            one, two, _ = made
            for name in names[:n + 1]:
                one[name] = name
            for name in names[:n][::-1]:
                assert two.pop(name) == value[name]
                two[name] = 1
                two.update(two.copy())
            assert list(two) == names[:n][::-1] or n == 0
        for cut in range(1, len(data), 7):
            try:
                msgpack_decode(data[:cut], frozen=frozen)
            except ValueError:
                pass
        for other in range(600):
            msgpack_decode(msgpack_encode({f"k{other}": {f"l{other % 300}": n}}))
gc.collect()
del kept, made, one, two
gc.collect()
print("sound")
"""
    for malloc in ("debug", "malloc_debug"):
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", code],
            capture_output=True,
            text=True,
            env={"PYTHONMALLOC": malloc},
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "sound\n", "")


def test_what_is_read_in_vain_is_given_back():
    """Each cut of a document that is read in one go for the most part: no block, no key, no reference is lost."""
    data = msgpack.packb(ROUND)

    def grown() -> int:
        gc.collect()
        before = sys.getallocatedblocks()
        for n in range(len(data)):
            at_once(data[:n])
            at_once(data[:n] + b"\xc1", frozen=True)
        gc.collect()
        return sys.getallocatedblocks() - before

    # What the interpreter and the tables of keys keep grows in the first rounds; what is lost would in each, by a block for each cut.
    assert min(grown() for _ in range(5)) < len(data) // 10
