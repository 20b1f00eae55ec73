"""What is put round a document: zstd and AES-GCM. Both are optional, and both are marked in the bytes.

    0xc1 'z'  raw size u32  zstd frame
    0xc1 'e'  length of the key id u8  key id  nonce of 12 bytes  AES-GCM ciphertext and tag

0xc1 begins no MessagePack, JSON or protobuf document of ours, so that mixed logs can be read. What is compressed is
encrypted after, never before.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from typing import Any, Final

from holdall.errors import ArgumentError, DecodeError, DecryptError

MARK: Final = 0xC1
_ZSTD: Final = b"\xc1z"
_AES: Final = b"\xc1e"
_SIZE: Final = struct.Struct(">I")
_SEQ: Final = struct.Struct(">q")
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_KEY_BYTES: Final = (16, 24, 32)
_MAX_KEY_ID_BYTES: Final = 255

# Entries up to this are stored as they are: those just above shrink by a third, those just below by a quarter, and either
# takes 22 us to write; see OPTIMIZATIONS.md.
COMPRESS_ABOVE_BYTES: Final = 512
# A blob that claims to unpack to more is refused, whatever its own size.
MAX_UNPACKED_BYTES: Final = 64 * 1024 * 1024
# The default of zstd: on recorded messages as good as 1 up to 2 KB and a hundredth better above; see OPTIMIZATIONS.md.
ZSTD_LEVEL: Final = 3


def _truncated(what: str) -> DecodeError:
    return DecodeError(f"{what} that is truncated", offset=0, reason="truncated")


class Zstd:
    """Compression of what is longer than a threshold, and bounded decompression."""

    def __init__(self, *, above_bytes: int = COMPRESS_ABOVE_BYTES, max_bytes: int = MAX_UNPACKED_BYTES) -> None:
        self.above_bytes = above_bytes
        self.max_bytes = max_bytes
        self._zstd: Any = None

    def _module(self) -> Any:
        if self._zstd is None:
            try:
                import zstandard
            except ImportError as exc:
                raise ImportError("compressed entries need an extra: pip install 'holdall[zstd]'") from exc
            self._zstd = zstandard
        return self._zstd

    def pack(self, data: bytes) -> bytes:
        """Compress, unless `data` is short or would not shrink."""
        if len(data) <= self.above_bytes:
            return data
        frame = self._module().ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True).compress(data)
        packed: bytes = _ZSTD + _SIZE.pack(len(data)) + frame
        return packed if len(packed) < len(data) else data

    def unpack(self, blob: bytes) -> bytes:
        """Decompress what `pack` compressed.

        Raises:
            DecodeError: It is damaged, or unpacks to more than `max_bytes` or than it says.
        """
        start = len(_ZSTD) + _SIZE.size
        if len(blob) < start:
            raise _truncated("a compressed blob")
        (size,) = _SIZE.unpack_from(blob, len(_ZSTD))
        if size > self.max_bytes:
            reason = f"a compressed blob that unpacks to {size} bytes; the limit is {self.max_bytes}"
            raise DecodeError(reason, offset=len(_ZSTD), reason=reason)
        zstd = self._module()
        frame = blob[start:]
        try:
            # The size in the frame is what is allocated, so it is compared first.
            if zstd.frame_content_size(frame) != size:
                raise DecodeError(
                    "a compressed blob whose two sizes differ", offset=start, reason="the sizes of the blob differ"
                )
            unpacker = zstd.ZstdDecompressor(max_window_size=max(self.max_bytes, 1024))
            data: bytes = unpacker.decompress(frame, max_output_size=size, allow_extra_data=False)
        except zstd.ZstdError as exc:
            raise DecodeError(f"a compressed blob that is damaged: {exc}", offset=start, reason="not zstd") from exc
        if len(data) != size:
            raise DecodeError("a compressed blob of another size", offset=start, reason="the sizes of the blob differ")
        return data


class Encryption:
    """AES-GCM with named keys: new blobs use the current key, old ones are read with the key that they name.

    Each blob is bound to its place: to the record (by default the session id), to what it is (head, kind of entry, tag)
    and to its seq. Moved to another place it does not open. A fork or a copy is another record, and is encrypted anew.
    What this does not see is what stood in the same place before, put back: an old head, an entry from before an edit; nor that
    the end of a log is missing. Keeping who can write to the store from that is the store's task.

    Args:
        keys: From key id (1 to 255 bytes of UTF-8, stored in the clear) to a key of 16, 24 or 32 bytes.
        current: The id of the key that new blobs are written with. Keys stay in `keys` until all that they wrote is
            written anew.
        allow_plain: Read blobs that are not encrypted, while a store is being moved over. Off by default: who can write
            to the store could otherwise put plain text in the place of what was encrypted.

    A key serves for 2^32 blobs at most (random nonces of 96 bits: NIST SP 800-38D, 8.3).
    """

    def __init__(self, keys: Mapping[str, bytes], current: str, *, allow_plain: bool = False) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as exc:
            raise ImportError("encryption needs an extra: pip install 'holdall[crypto]'") from exc
        if current not in keys:
            raise ArgumentError(f"the current key {current!r} is not among the keys: {', '.join(sorted(keys))}")
        for key_id, key in keys.items():
            if not 0 < len(key_id.encode()) <= _MAX_KEY_ID_BYTES:
                raise ArgumentError(f"a key id must have 1 to {_MAX_KEY_ID_BYTES} bytes in UTF-8: {key_id!r}")
            if len(key) not in _KEY_BYTES:
                raise ArgumentError(f"key {key_id!r} has {len(key)} bytes; AES takes 16, 24 or 32")
        self.current = current
        self.allow_plain = allow_plain
        self._ciphers = {key_id: AESGCM(bytes(key)) for key_id, key in keys.items()}
        self._invalid_tag = InvalidTag

    def __repr__(self) -> str:
        return f"Encryption(keys={sorted(self._ciphers)}, current={self.current!r})"

    def seal(self, data: bytes, *, record: str, kind: str, seq: int) -> bytes:
        """Encrypt `data` for its place."""
        header = _header(self.current)
        nonce = os.urandom(_NONCE_BYTES)
        cipher = self._ciphers[self.current]
        return header + nonce + cipher.encrypt(nonce, data, _bound_to(header, record, kind, seq))

    def open(self, blob: bytes, *, record: str, kind: str, seq: int) -> bytes:
        """Decrypt what `seal` encrypted for this place.

        Raises:
            DecryptError: The key is missing or wrong, or the blob is damaged or belongs to another place.
        """
        key_id = key_id_of(blob)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            known = ", ".join(sorted(self._ciphers))
            raise DecryptError(
                f"encrypted with key {key_id!r}, which is not given (given: {known})",
                key_id=key_id,
                reason="missing key",
            )
        header = _header(key_id)
        nonce = blob[len(header) : len(header) + _NONCE_BYTES]
        body = blob[len(header) + _NONCE_BYTES :]
        if len(nonce) < _NONCE_BYTES or len(body) < _TAG_BYTES:
            raise DecryptError("an encrypted blob that is truncated", key_id=key_id, reason="truncated")
        try:
            return cipher.decrypt(nonce, body, _bound_to(header, record, kind, seq))
        except self._invalid_tag:
            raise DecryptError(
                f"does not open with key {key_id!r}: the key is wrong, or the bytes are damaged or belong to another "
                "record or place",
                key_id=key_id,
                reason="authentication failed",
            ) from None


def _header(key_id: str) -> bytes:
    name = key_id.encode()
    return _AES + bytes([len(name)]) + name


def _bound_to(header: bytes, record: str, kind: str, seq: int) -> bytes:
    parts = [name.encode("utf-8", "surrogatepass") for name in (record, kind)]
    return b"".join([b"holdall 1", header, *(_SIZE.pack(len(part)) + part for part in parts), _SEQ.pack(seq)])


def is_compressed(blob: bytes) -> bool:
    """Whether `blob` is what `Zstd.pack` made."""
    return blob.startswith(_ZSTD)


def is_encrypted(blob: bytes) -> bool:
    """Whether `blob` is what `Encryption.seal` made."""
    return blob.startswith(_AES)


def key_id_of(blob: bytes) -> str:
    """Return the id of the key that an encrypted blob names."""
    start = len(_AES) + 1
    try:
        end = start + blob[len(_AES)]
        name = blob[start:end]
        if len(name) == end - start > 0:
            return name.decode()
    except (IndexError, UnicodeDecodeError):
        pass
    raise DecryptError("an encrypted blob whose header is damaged", key_id=None, reason="damaged header")
