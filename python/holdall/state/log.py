"""The log of a state: messages and step results in the order in which they came, and how much of it is stored.

A store holds one log per record, in which `seq` counts over both kinds. Here the two kinds are two containers, a list and
a dict, and `kinds` says how they interleave: one byte per entry, so that entry `seq` is the next of its kind. Values never
change; an edit puts another value in the place and moves the watermark back to it, so that the next save says "keep the
first n" and appends from there.

    saved    how many leading entries are known to stand in the store just as they are here
    stored   how many entries the store holds; beyond `saved` they are stale and will be cut
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from holdall._native import msgpack_decode, msgpack_encode
from holdall.errors import EncodeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdall._native import Unread

Message = dict[str, Any]
StepKey = int | str

MESSAGE: Final = "message"
STEP_RESULT: Final = "step_result"
# As `kinds` has them.
KINDS: Final = (MESSAGE, STEP_RESULT)
IS_MESSAGE: Final = 0
IS_RESULT: Final = 1

# Names of the fields in MessagePack; written out, since the encoder is not called while this module is imported: it imports
# this package when it is first called.
_MESSAGES: Final = b"\xa8messages"
_STEP_RESULTS: Final = b"\xacstep_results"
_ORDER: Final = b"\xa6_order"
# A map of so many pairs has a header of three bytes.
_MAP_16: Final = 16
_TURNED: Final = bytes([IS_RESULT, IS_MESSAGE]) + bytes(254)


class Item(NamedTuple):
    """One entry of the log: its kind, its value, read-only, and the bytes of the value while they are at hand."""

    kind: str
    value: Any
    packed: bytes | None = None

    @classmethod
    def of(cls, kind: str, value: Any, *, path: str) -> Item:
        """Take a snapshot of `value`; an `EncodeError` names the path of what cannot be stored."""
        packed = msgpack_encode(value, path=path)
        return cls(kind, msgpack_decode(packed, frozen=True), packed)

    @classmethod
    def of_step(cls, step: StepKey, result: Any) -> Item:
        """Take a snapshot of what a step gave."""
        try:
            return cls.of(STEP_RESULT, [step, result], path="")
        except EncodeError as exc:
            path = f"step_results[{step!r}]" + exc.path.removeprefix("[1]")
            raise EncodeError(f"{path} {exc.reason}", path=path, reason=exc.reason) from None

    def bytes_of_value(self) -> bytes:
        """Return the value in MessagePack."""
        return self.packed if self.packed is not None else msgpack_encode(self.value)


class Pending(NamedTuple):
    """What a save has to send, taken at one instant.

    Attributes:
        start: Seq of the first entry to append. A last-writer-wins save passes it as `keep`.
        keep: Entries of the stored log to keep, None where none has to go.
        items: The entries to append, in order.
    """

    start: int
    keep: int | None
    items: tuple[Item, ...]


class Items(Sequence[Item]):
    """All entries as they were at one instant: cheap to take, since only references are copied."""

    __slots__ = ("kinds", "messages", "packed", "pairs")

    def __init__(
        self, kinds: bytes, messages: list[Message], pairs: list[Sequence[Any]], packed: dict[int, bytes] | None = None
    ) -> None:
        self.kinds = kinds
        self.messages = messages
        self.pairs = pairs
        self.packed = packed or {}

    @classmethod
    def of(cls, items: Iterable[Item]) -> Items:
        """Take items one by one."""
        if isinstance(items, Items):
            return items
        taken = list(items)
        return cls(
            bytes(KINDS.index(item.kind) for item in taken),
            [item.value for item in taken if item.kind == MESSAGE],
            [item.value for item in taken if item.kind == STEP_RESULT],
            {seq: item.packed for seq, item in enumerate(taken) if item.packed is not None},
        )

    def since(self, start: int) -> Iterator[Item]:
        """Yield the entries from seq `start` on."""
        n_messages = self.kinds.count(IS_MESSAGE, 0, start)
        values = (iter(self.messages[n_messages:]), iter(self.pairs[start - n_messages :]))
        for seq, kind in enumerate(self.kinds[start:], start):
            yield Item(KINDS[kind], next(values[kind]), self.packed.get(seq))

    def __len__(self) -> int:
        return len(self.kinds)

    def __iter__(self) -> Iterator[Item]:
        return self.since(0)

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | Sequence[Item]:
        if isinstance(at, slice):
            return self if at == slice(None) else list(self)[at]
        return next(self.since(range(len(self))[at]))


def _array(n: int) -> bytes:
    """Return the header of an array."""
    if n < 16:  # noqa: PLR2004 - as the specification has it
        return bytes([0x90 | n])
    return b"\xdc" + n.to_bytes(2, "big") if n < 1 << 16 else b"\xdd" + n.to_bytes(4, "big")


class UnreadLog(NamedTuple):
    """All entries of a document that was loaded, until somebody asks for them.

    Attributes:
        messages: The messages, an array.
        pairs: The step results, an array of pairs.
        order: The kinds of the entries, None where all messages come first.
    """

    messages: Unread
    pairs: Unread
    order: bytes | None

    def read(self) -> Items:
        """Decode them."""
        kinds = self.order
        if kinds is None:
            kinds = bytes(len(self.messages)) + bytes([IS_RESULT]) * len(self.pairs)
        return Items(kinds, self.messages.read(), self.pairs.read())

    @property
    def is_encoded(self) -> bool:
        """True: they stand in the document."""
        return True

    def document(self, head: bytes) -> bytes:
        """Return the document of an encoded head, a map, and these entries as they were encoded."""
        messages, pairs = (memoryview(unread.data)[unread.start : unread.end] for unread in (self.messages, self.pairs))
        return _document(head, (messages,), (pairs,), self.order)


def _document(
    head: bytes, messages: Iterable[bytes | memoryview], pairs: Iterable[bytes | memoryview], order: bytes | None
) -> bytes:
    """Add the log, encoded, to a head that is encoded as a map of less than 14 pairs."""
    n = (head[0] & 0x0F) + 2
    end: tuple[bytes, ...] = ()
    if order is not None:
        n += 1
        end = (_ORDER, msgpack_encode(order))
    start = bytes([0x80 | n]) if n < _MAP_16 else bytes([0xDE, 0, n])
    return b"".join((start, memoryview(head)[1:], _MESSAGES, *messages, _STEP_RESULTS, *pairs, *end))


class Log:
    """The kinds of the entries in order, the step results as they were recorded, and the watermark.

    The messages themselves are in `messages`, which is what `SessionState.messages` gives.
    """

    __slots__ = ("kinds", "messages", "packed", "pairs", "saved", "stored")

    def __init__(self, messages: list[Message], pairs: list[Sequence[Any]]) -> None:
        self.kinds = bytearray()
        self.messages = messages
        self.pairs = pairs
        # Bytes of entries that are not stored yet, so that each is encoded once.
        self.packed: dict[int, bytes] = {}
        self.saved = 0
        self.stored = 0

    @property
    def items(self) -> Items:
        """All entries as they are now."""
        return Items(bytes(self.kinds), self.messages[:], self.pairs[:], dict(self.packed))

    @property
    def order(self) -> bytes | None:
        """The kinds of the entries; None where all messages come first, which needs no words."""
        kinds = bytes(self.kinds)
        n_messages = kinds.count(IS_MESSAGE)
        return kinds if kinds.find(IS_RESULT, 0, n_messages) >= 0 else None

    @property
    def is_encoded(self) -> bool:
        """Whether every entry is at hand as it was encoded."""
        return len(self.packed) == len(self.kinds)

    def document(self, head: bytes) -> bytes:
        """Return the document of an encoded head and the entries, where every one `is_encoded`."""
        kinds = self.kinds
        entries = list(map(self.packed.__getitem__, range(len(kinds))))
        messages = (_array(len(self.messages)), *compress(entries, kinds.translate(_TURNED)))
        pairs = (_array(len(self.pairs)), *compress(entries, kinds))
        return _document(head, messages, pairs, self.order)

    def add(self, item: Item) -> None:
        """Note an entry that was appended to its container."""
        if item.packed is not None:
            self.packed[len(self.kinds)] = item.packed
        self.kinds.append(KINDS.index(item.kind))

    def seq_of(self, kind: int, index: int) -> int:
        """Return the seq of the entry that is the `index`-th of its kind."""
        if not self.pairs:
            return index
        return bisect_left(range(len(self.kinds)), index + 1, key=lambda seq: self.kinds.count(kind, 0, seq + 1))

    def replaced(self, seq: int, item: Item) -> None:
        """Note that another value stands at `seq`."""
        self.saved = min(self.saved, seq)
        if item.packed is not None:
            self.packed[seq] = item.packed

    def inserted(self, seq: int, item: Item) -> None:
        """Note an entry put in front of `seq`."""
        self.kinds.insert(seq, KINDS.index(item.kind))
        self.packed = {at + (at >= seq): data for at, data in self.packed.items()}
        self.replaced(seq, item)

    def removed(self, seqs: list[int]) -> None:
        """Note that the entries at `seqs`, ascending, are gone."""
        if not seqs:
            return
        for seq in reversed(seqs):
            del self.kinds[seq]
        gone = set(seqs)
        self.packed = {at - bisect_left(seqs, at): data for at, data in self.packed.items() if at not in gone}
        self.saved = min(self.saved, seqs[0])

    def pending(self) -> Pending:
        """Return what has to be sent; nothing changes until `mark_saved`."""
        keep = self.saved if self.stored > self.saved else None
        return Pending(self.saved, keep, tuple(self._since(self.saved)))

    def mark_saved(self, pending: Pending) -> None:
        """Record that `pending` is stored. What was appended or edited since then stays to be sent."""
        self.stored = pending.start + len(pending.items)
        if self.saved == pending.start:
            for now, sent in zip(self._since(self.saved), pending.items, strict=False):
                if now.value is not sent.value or now.kind != sent.kind:
                    break
                self.packed.pop(self.saved, None)
                self.saved += 1

    def _since(self, start: int) -> Iterator[Item]:
        return Items(self.kinds, self.messages, self.pairs, self.packed).since(start)  # type: ignore[arg-type]
