"""Compression and encryption of blobs: bounded, bound to their place, and never an empty answer."""

from __future__ import annotations

import os
import random
import sys

import pytest

from holdall.errors import ArgumentError, DecodeError, DecryptError
from holdall.state import Encryption, SessionState, StateSerializer
from holdall.state.seal import COMPRESS_ABOVE_BYTES, Zstd

zstandard = pytest.importorskip("zstandard")
pytest.importorskip("cryptography")

OLD, NEW = b"o" * 16, b"n" * 32
FORMATS = ["msgpack", "json", "protobuf"]


def a_state(n=4, size=3000):
    state = SessionState("s", "u", metadata={"secret": "hunter2"}, summary="what was said")
    for i in range(n):
        state.messages.append({"role": "user", "content": f"message {i} " + "the same words again " * (size // 21)})
        state.step_results[i] = "ok"
    return state


def numbered(snapshot):
    return [(kind, data, snapshot.start + n) for n, (kind, data) in enumerate(snapshot.append)]


@pytest.mark.parametrize("name", FORMATS)
def test_long_entries_are_compressed_and_short_ones_are_not(name):
    state = a_state()
    serializer = StateSerializer(name, log_format=name, compression="zstd")
    snapshot = serializer.snapshot(state)
    for kind, data in snapshot.append:
        assert (kind == "message") == data.startswith(b"\xc1z")
        assert len(data) < 400
    assert not snapshot.head.startswith(b"\xc1")
    # Whoever has the extra reads mixed logs, asked to compress or not.
    assert StateSerializer().restore(snapshot.head, snapshot.append) == state
    assert StateSerializer().loads(serializer.dumps(state)) == state


def test_what_does_not_shrink_is_left_as_it_is():
    noise = random.Random(1).randbytes(5000)
    assert Zstd().pack(noise) == noise
    assert Zstd().pack(b"a" * COMPRESS_ABOVE_BYTES) == b"a" * COMPRESS_ABOVE_BYTES
    assert len(Zstd().pack(b"a" * (COMPRESS_ABOVE_BYTES + 1))) < 100


def test_a_decompression_bomb_is_refused_before_it_unpacks():
    bomb = zstandard.ZstdCompressor().compress(bytes(200_000_000))
    honest = b"\xc1z" + (200_000_000).to_bytes(4, "big") + bomb
    lying = b"\xc1z" + (1000).to_bytes(4, "big") + bomb
    with pytest.raises(DecodeError, match="limit"):
        StateSerializer().restore(honest)
    with pytest.raises(DecodeError, match="sizes differ"):
        StateSerializer().restore(lying)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(200_000_000))
    with pytest.raises(DecodeError):
        StateSerializer().restore(b"\xc1z" + (1000).to_bytes(4, "big") + unsized)
    # A bomb within a bomb is not unpacked twice.
    with pytest.raises(DecodeError):
        StateSerializer().restore(
            b"\xc1z" + (len(honest)).to_bytes(4, "big") + zstandard.ZstdCompressor().compress(honest)
        )


def test_the_limit_is_the_callers():
    state = a_state(1, 100_000)
    snapshot = StateSerializer(compression="zstd").snapshot(state)
    with pytest.raises(DecodeError, match="limit is 50000"):
        StateSerializer(max_unpacked_bytes=50_000).restore(snapshot.head, snapshot.append)


def test_damaged_compressed_blobs_are_refused():
    rng = random.Random(7)
    blob = StateSerializer(compression="zstd").dumps(a_state(3))
    assert blob.startswith(b"\xc1z")
    refused = 0
    for _ in range(2000):
        data = bytearray(blob)
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            found = StateSerializer().loads(bytes(data))
        except DecodeError:
            refused += 1
        else:
            assert found == a_state(3), "a bit that means nothing was flipped, or the checksum is not checked"
    assert refused > 1900


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_encrypted_states_come_back_and_show_nothing(name, compression):
    serializer = StateSerializer(name, compression=compression, encryption=Encryption({"k1": NEW}, "k1"))
    state = a_state()
    snapshot = serializer.snapshot(state)
    assert (serializer.head_format, snapshot.format) == ("encrypted", "encrypted")
    for data in (snapshot.head, *(data for _, data in snapshot.append), serializer.dumps(state)):
        assert data.startswith(b"\xc1e\x02k1")
        assert b"hunter2" not in data
        assert b"same words" not in data
    assert serializer.restore(snapshot.head, snapshot.append, record="s") == state
    assert serializer.restore(snapshot.head, numbered(snapshot), record="s") == state
    assert serializer.loads(serializer.dumps(state), record="s") == state
    assert serializer.snapshot(state).head != snapshot.head, "a nonce was used twice"


def test_old_keys_still_read_and_the_current_one_writes():
    old = StateSerializer(encryption=Encryption({"2025": OLD}, "2025"))
    state = a_state(2)
    first = old.snapshot(state)
    state.mark_saved(1, first.pending)
    state.messages.append({"role": "user", "content": "after the rotation"})
    both = StateSerializer(encryption=Encryption({"2025": OLD, "2026": NEW}, "2026"))
    second = both.snapshot(state)
    log = [*first.append, *second.append]
    assert log[0][1].startswith(b"\xc1e\x042025")
    assert log[-1][1].startswith(b"\xc1e\x042026")
    assert both.restore(second.head, log, record="s", version=1) == state
    with pytest.raises(DecryptError, match="'2026', which is not given") as caught:
        old.restore(second.head, log, record="s")
    assert (caught.value.key_id, caught.value.reason) == ("2026", "missing key")


def test_a_wrong_key_is_an_error_and_no_empty_answer():
    snapshot = StateSerializer(encryption=Encryption({"k": OLD}, "k")).snapshot(a_state())
    wrong = StateSerializer(encryption=Encryption({"k": b"w" * 16}, "k"))
    with pytest.raises(DecryptError, match="wrong"):
        wrong.restore(snapshot.head, snapshot.append, record="s")
    with pytest.raises(DecryptError, match="give the serializer its keys"):
        StateSerializer().restore(snapshot.head, snapshot.append, record="s")


def test_a_blob_opens_in_its_own_place_only():
    """Swapped between records, kinds or positions, cut or repeated, it does not open."""
    serializer = StateSerializer(encryption=Encryption({"k": OLD}, "k"))
    state = a_state(2)
    snapshot = serializer.snapshot(state)
    log = list(snapshot.append)
    other = SessionState("other", "u", messages=[{"role": "user", "content": "other's"}])
    others = serializer.snapshot(other)
    for head, entries, record in [
        (snapshot.head, log, "other"),
        (others.head, log, "s"),
        (snapshot.head, [others.append[0], *log[1:]], "s"),
        (snapshot.head, [log[2], log[1], log[0], log[3]], "s"),
        (snapshot.head, log[1:], "s"),
        (snapshot.head, [log[0], log[0]], "s"),
        (snapshot.head, [("step_result", log[0][1]), *log[1:]], "s"),
        (log[0][1], [], "s"),
        (serializer.dumps(state), log, "s"),
        (snapshot.head, log, None),
    ]:
        with pytest.raises(DecryptError):
            serializer.restore(head, entries, record=record)


def test_plain_bytes_are_refused_where_encryption_is_on():
    """Who can write to the store must not put plain text in the place of what was encrypted."""
    plain = StateSerializer().snapshot(a_state())
    keys = {"k": OLD}
    with pytest.raises(DecryptError, match="allow_plain"):
        StateSerializer(encryption=Encryption(keys, "k")).restore(plain.head, plain.append, record="s")
    moving = StateSerializer(encryption=Encryption(keys, "k", allow_plain=True))
    assert moving.restore(plain.head, plain.append, record="s") == a_state()


def test_every_damaged_bit_is_noticed():
    serializer = StateSerializer(encryption=Encryption({"k": OLD}, "k"))
    state = SessionState("s", "u")
    blob = serializer.head(state)
    for at in range(len(blob)):
        for bit in range(8):
            data = bytearray(blob)
            data[at] ^= 1 << bit
            with pytest.raises((DecryptError, DecodeError)):
                serializer.restore(bytes(data), record="s")
    for n in range(len(blob)):
        with pytest.raises((DecryptError, DecodeError)):
            serializer.restore(blob[:n], record="s")


def test_an_edit_is_encrypted_for_its_new_place():
    serializer = StateSerializer(encryption=Encryption({"k": OLD}, "k"))
    state = a_state(3)
    first = serializer.snapshot(state)
    log = list(first.append)
    state.mark_saved(1, first.pending)
    del state.messages[0]
    second = serializer.snapshot(state)
    log = log[: second.keep] + list(second.append)
    assert serializer.restore(second.head, log, record="s", version=1) == state


def test_tags_are_sealed_for_their_name_and_record():
    serializer = StateSerializer(encryption=Encryption({"k": OLD}, "k"))
    sealed = serializer.seal_tag("title", "geheim", record="s")
    assert "geheim" not in sealed
    assert serializer.open_tag("title", sealed, record="s") == "geheim"
    for name, record in (("other", "s"), ("title", "t")):
        with pytest.raises(DecryptError):
            serializer.open_tag(name, sealed, record=record)
    with pytest.raises(DecryptError, match="not encrypted"):
        serializer.open_tag("title", "geheim", record="s")
    plain = StateSerializer()
    assert plain.open_tag("title", plain.seal_tag("title", "x", record="s"), record="s") == "x"


@pytest.mark.parametrize(
    ("keys", "current", "message"),
    [
        ({"a": OLD}, "b", "not among the keys"),
        ({"a": b"short"}, "a", "5 bytes"),
        ({"": OLD}, "", "1 to 255"),
        ({"a" * 256: OLD}, "a" * 256, "1 to 255"),
    ],
)
def test_keys_are_checked_when_given(keys, current, message):
    with pytest.raises(ArgumentError, match=message):
        Encryption(keys, current)


def test_keys_are_not_printed():
    assert "ooo" not in repr(Encryption({"k": OLD}, "k"))


def test_unknown_formats_are_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown format 'pickle'; known: msgpack, json, protobuf"):
        StateSerializer("pickle")
    with pytest.raises(ValueError, match=r"unknown compression 'lz4'; known: zstd"):
        StateSerializer(compression="lz4")


@pytest.mark.parametrize(("module", "extra"), [("zstandard", "zstd"), ("cryptography.exceptions", "crypto")])
def test_a_missing_extra_is_named(module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    use = {"zstd": lambda: Zstd().pack(os.urandom(9) * 1000), "crypto": lambda: Encryption({"k": OLD}, "k")}[extra]
    with pytest.raises(ImportError, match=rf"pip install 'holdall\[{extra}\]'"):
        use()
