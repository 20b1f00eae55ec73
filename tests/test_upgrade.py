"""S4: every state ever released loads, by chained steps; and today's bytes are those of today's version."""

from __future__ import annotations

import re
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.errors import ArgumentError, DecodeError, NewerStateError
from holdall.state import Encryption, SessionState, StateSerializer, upgrade
from holdall.state.upgrade import ENTRIES, HEADS, Chain
from tests.make_frozen_states import DATA, SEAL_KEY, expected, files
from tests.state_values import same

FORMATS = ["msgpack", "json", "protobuf"]
VERSIONS = range(HEADS.first, HEADS.current + 1)


def assert_is(state, version):
    """Equal to the last bit, in the order of keys, and with the log in its order."""
    wanted = expected(version)
    for name in ("session_id", "user_id", "summary", "current_step", "plan", "active_tools", "accumulated_cost"):
        assert same(getattr(wanted, name), getattr(state, name)), name
    for name in ("token_count", "ttl_seconds", "status", "metadata"):
        assert same(getattr(wanted, name), getattr(state, name)), name
    log = [[(item.kind, item.value) for item in one.log.items] for one in (wanted, state)]
    assert same(*log) or all(
        kind == other and same_frozen(value, found) for (kind, value), (other, found) in zip(*log, strict=True)
    )


def same_frozen(a, b):
    serializer = StateSerializer()
    return serializer.entry("message", a) == serializer.entry("message", b)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("version", VERSIONS)
def test_case_44_frozen_bytes_of_every_version_load(version, name):
    """langgraph 5862: a minor upgrade stops reading what the last one wrote."""
    state = StateSerializer().loads((DATA / f"v{version}.{name}").read_bytes())
    assert_is(state, version)


@pytest.mark.parametrize("name", FORMATS)
def test_case_44_frozen_heads_and_logs_load(name):
    paths = sorted(DATA.glob(f"v3.log*.{name}"))
    log = [(path.name.split(".")[2], path.read_bytes()) for path in paths]
    state = StateSerializer().restore((DATA / f"v3.head.{name}").read_bytes(), log, version=7)
    assert_is(state, 3)
    assert (state.version, state.pending()[:2], state.pending().items) == (7, (5, None), ())


def test_frozen_sealed_bytes_load():
    """What zstd and AES-GCM are wrapped in is a format too."""
    pytest.importorskip("zstandard")
    pytest.importorskip("cryptography")
    serializer = StateSerializer(encryption=Encryption({"frozen": SEAL_KEY}, "frozen"))
    assert_is(serializer.loads((DATA / "v3.zstd.aes").read_bytes(), record="session:é"), 3)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("version", [1, 2])
def test_an_old_record_becomes_a_head_and_a_log_by_its_next_save(version, name):
    state = StateSerializer().restore((DATA / f"v{version}.{name}").read_bytes(), [], version=4)
    snapshot = StateSerializer().snapshot(state)
    assert (snapshot.keep, snapshot.start, len(snapshot.append)) == (None, 0, 5)
    assert_is(StateSerializer().restore(snapshot.head, snapshot.append), version)


def test_todays_encoder_writes_the_frozen_bytes():
    """A change of the bytes is a change of the format: it needs a version, a step, and frozen bytes of its own."""
    made = files(HEADS.current)
    assert sorted(made) == sorted(path.name for path in DATA.glob(f"v{HEADS.current}.*") if path.suffix != ".aes")
    for name, data in made.items():
        assert (DATA / name).read_bytes() == data, name


def test_v1_gains_a_plan_and_v2_calls_context_metadata():
    old = {"_version": 1, "session_id": "s", "context": {"k": 1}}
    assert upgrade(old) == {"_version": 3, "session_id": "s", "plan": [], "metadata": {"k": 1}}
    assert old == {"_version": 1, "session_id": "s", "context": {"k": 1}}, "a step changed its input"
    assert upgrade({"_version": 2, "plan": ["x"]}) == {"_version": 3, "plan": ["x"], "metadata": {}}


@given(
    st.dictionaries(
        st.sampled_from(["plan", "context", "metadata", "summary"]), st.dictionaries(st.text(), st.integers())
    )
)
def test_upgrade_is_idempotent(fields):
    for version in VERSIONS:
        once = upgrade({"_version": version, **fields})
        assert upgrade(once) == once


@pytest.mark.parametrize("name", FORMATS)
def test_a_newer_state_is_refused_with_both_versions(name):
    serializer = StateSerializer(name, log_format=name)
    state = SessionState("s", "u", messages=[{"role": "user"}])
    snapshot = serializer.snapshot(state)
    newer = {
        "msgpack": (b"\xa8_version\x03", b"\xa8_version\x04"),
        "json": (b'"_version":3', b'"_version":4'),
        "protobuf": (b"\x08\x03", b"\x08\x04"),
    }
    for data in (snapshot.head, serializer.dumps(state)):
        with pytest.raises(NewerStateError, match="version 4") as caught:
            serializer.loads(data.replace(*newer[name], 1))
        assert (caught.value.found, caught.value.supported) == (4, 3)
    kind, entry = snapshot.append[0]
    newer["msgpack"] = (b"\x92\x03", b"\x92\x04")
    with pytest.raises(NewerStateError):
        serializer.restore(snapshot.head, [(kind, entry.replace(*newer[name], 1))])


@pytest.mark.parametrize("version", [0, -1, None, "3", 3.0, True])
def test_a_version_that_never_was_is_refused(version):
    with pytest.raises(DecodeError, match="version"):
        upgrade({"_version": version})
    with pytest.raises(DecodeError, match="version"):
        ENTRIES.upgrade({}, 2)


def test_a_chain_refuses_gaps_and_runs_in_order():
    chain = Chain()
    chain.step(to=2)(lambda value: [*value, 2])
    for to in (2, 4, 1):
        with pytest.raises(ArgumentError, match=f"version {to} does not follow version 2"):
            chain.step(to=to)
    chain.step(to=3)(lambda value: [*value, 3])
    assert [chain.upgrade([], found) for found in (1, 2, 3)] == [[2, 3], [3], []]


def test_the_proto_file_is_what_the_codec_reads():
    """The definition is read off the file; its numbers are released and never change."""
    from holdall.state.protobuf_codec import definition

    text = resources.files("holdall.state").joinpath("session.proto").read_text("utf-8")
    made = {
        message.name: {field.name: field.number for field in message.field} for message in definition().message_type
    }
    assert list(made) == re.findall(r"^message (\w+)", text, re.MULTILINE)
    assert sum(map(len, made.values())) == len(re.findall(r"= \d+;", text))
    assert made["Document"] == {"schema": 1, "fields": 2}
    assert list(made["Value"].values()) == list(range(1, 14))
    assert all(
        field.HasField("oneof_index") == (message.name == "Value")
        for message in definition().message_type
        for field in message.field
    )
