"""The log of a state: messages and step results in the order in which they came, and how much of it is stored.

A store holds one log per record, in which `seq` counts over both kinds. Here the two kinds are two containers, a list and
a dict, and `kinds` says how they interleave: one byte per entry, so that entry `seq` is the next of its kind. Values never
change; an edit puts another value in the place and moves the watermark back to it, so that the next save says "keep the
first n" and appends from there.

    saved    how many leading entries are known to stand in the store just as they are here
    stored   how many entries the store holds; beyond `saved` they are stale and will be cut
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from holdall._native import Entries, msgpack_decode, msgpack_encode
from holdall.errors import EncodeError
from holdall.state.values import ReadOnlyList

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdall._native import Unread

Message = dict[str, Any]
StepKey = int | str
# All entries of a document that was loaded, until somebody asks for them: messages, pairs of step and result, and the kinds in
# order, None where all messages come first.
UnreadLog = tuple["Unread", "Unread", "bytes | None"]

MESSAGE: Final = "message"
STEP_RESULT: Final = "step_result"
# As `kinds` has them.
KINDS: Final = (MESSAGE, STEP_RESULT)
IS_MESSAGE: Final = 0
IS_RESULT: Final = 1
# An entry stands in a document within its map and an array.
_DEPTH: Final = 2
_TURNED: Final = bytes([IS_RESULT, IS_MESSAGE]) + bytes(254)


class Item(NamedTuple):
    """One entry of the log: its kind, its value, read-only, and the bytes of the value while they are at hand."""

    kind: str
    value: Any
    packed: bytes | None = None

    @classmethod
    def of(cls, kind: str, value: Any, *, path: str) -> Item:
        """Take a snapshot of `value`; an `EncodeError` names the path of what cannot be stored."""
        packed = msgpack_encode(value, path=path, depth=_DEPTH)
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

    __slots__ = ("kinds", "messages", "pairs")

    def __init__(self, kinds: bytes | bytearray, messages: list[Message], pairs: list[Sequence[Any]]) -> None:
        self.kinds = kinds
        self.messages = messages
        self.pairs = pairs

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
        )

    def since(self, start: int) -> Iterator[Item]:
        """Yield the entries from seq `start` on."""
        n_messages = _n_messages(self.messages, self.kinds, start)
        values = (iter(self.messages[n_messages:]), iter(self.pairs[start - n_messages :]))
        for kind in self.kinds[start:]:
            yield Item(KINDS[kind], next(values[kind]))

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


def _n_messages(messages: list[Message], kinds: bytes | bytearray, start: int) -> int:
    """Return how many of the entries before seq `start` are messages: those behind it are few where it is a watermark."""
    return len(messages) - kinds.count(IS_MESSAGE, start)


class Marks:
    """What is known of the entries besides their values: their kinds in order, the watermark, and their encoded forms.

    Both views note their changes here. It refers to neither, so that a state ends with its last reference.

    Attributes:
        kinds: One byte per entry.
        pairs: The step results as they were recorded, a step that was recorded twice twice; None while they are those of the
            dict, each step once.
        encoded: Of each kind, the entries that are at hand as they were encoded, so that each is encoded once: those that
            are not stored yet, or all of a document.
        saved: How many leading entries are known to stand in the store just as they are here.
        stored: How many entries the store holds.
    """

    __slots__ = ("encoded", "kinds", "pairs", "saved", "stored")

    def __init__(self, kinds: bytearray, pairs: list[Sequence[Any]] | None, encoded: tuple[Entries, Entries]) -> None:
        self.kinds = kinds
        self.pairs = pairs
        self.encoded = encoded
        self.saved = 0
        self.stored = 0

    def add(self, kind: int, packed: bytes) -> None:
        """Note an entry that is appended to its container."""
        self.encoded[kind].append(packed)
        self.kinds.append(kind)

    def seq_of(self, kind: int, index: int) -> int:
        """Return the seq of the entry that is the `index`-th of its kind."""
        if kind == IS_MESSAGE and self.kinds.find(IS_RESULT, 0, index + 1) < 0:
            return index
        return self._seqs_of(kind)[index]

    def _seqs_of(self, kind: int) -> list[int]:
        kinds = self.kinds if kind == IS_RESULT else self.kinds.translate(_TURNED)
        return list(compress(range(len(kinds)), kinds))

    def replaced(self, kind: int, index: int, packed: bytes) -> None:
        """Note that another value stands at the `index`-th place of its kind."""
        self.encoded[kind].replace(index, packed)
        self.saved = min(self.saved, self.seq_of(kind, index))

    def inserted(self, kind: int, index: int) -> None:
        """Note an entry put in front of the `index`-th of its kind."""
        seq = self.seq_of(kind, index)
        self.kinds.insert(seq, kind)
        self.encoded[kind].forget_all(len(self.encoded[kind]) + 1)
        self.saved = min(self.saved, seq)

    def removed(self, kind: int, indices: Sequence[int]) -> None:
        """Note that the entries at these places of their kind, ascending, are gone."""
        if not indices:
            return
        of_kind = self._seqs_of(kind)
        seqs = [of_kind[index] for index in indices]
        for seq in reversed(seqs):
            del self.kinds[seq]
        self.encoded[kind].forget_all(len(self.encoded[kind]) - len(seqs))
        self.saved = min(self.saved, seqs[0])


class Log:
    """Messages and step results in the order in which they came, with the watermark: see `Marks`."""

    __slots__ = ("_marks", "_messages", "_results")

    def __init__(self, messages: list[Message], results: dict[StepKey, Any], marks: Marks) -> None:
        self._messages = messages
        self._results = results
        self._marks = marks

    @property
    def saved(self) -> int:
        """How many leading entries are known to stand in the store just as they are here."""
        return self._marks.saved

    @saved.setter
    def saved(self, saved: int) -> None:
        self._marks.saved = saved

    @property
    def stored(self) -> int:
        """How many entries the store holds; those beyond `saved` are stale and will be cut."""
        return self._marks.stored

    @stored.setter
    def stored(self, stored: int) -> None:
        self._marks.stored = stored

    @property
    def kinds(self) -> bytearray:
        """One byte per entry."""
        return self._marks.kinds

    @property
    def messages(self) -> list[Message]:
        """The messages."""
        return self._messages

    @property
    def pairs(self) -> list[Sequence[Any]]:
        """The step results as they were recorded."""
        return pairs_of(self._marks, self._results)

    @property
    def items(self) -> Items:
        """All entries as they are now."""
        return Items(bytes(self.kinds), self._messages[:], self.pairs[:])

    @property
    def order(self) -> bytes | None:
        """The kinds of the entries; None where all messages come first, which needs no words."""
        kinds = bytes(self.kinds)
        n_messages = kinds.count(IS_MESSAGE)
        return kinds if kinds.find(IS_RESULT, 0, n_messages) >= 0 else None

    @property
    def encoded(self) -> tuple[Entries | list[Message], Entries | list[Sequence[Any]]]:
        """The entries of each kind, as they were encoded where all are at hand."""
        messages, results = self._marks.encoded
        return messages if messages.is_whole else self._messages, results if results.is_whole else self.pairs

    def pending(self) -> Pending:
        """Return what has to be sent; nothing changes until `mark_saved`."""
        marks = self._marks
        start = marks.saved
        keep = start if marks.stored > start else None
        if start == len(marks.kinds):
            return Pending(start, keep, ())
        n_messages = _n_messages(self._messages, marks.kinds, start)
        at = [n_messages, start - n_messages]
        items = []
        for item, kind in zip(self._since(start), marks.kinds[start:], strict=True):
            items.append(item._replace(packed=marks.encoded[kind].get(at[kind])))
            at[kind] += 1
        return Pending(start, keep, tuple(items))

    def mark_saved(self, pending: Pending) -> None:
        """Record that `pending` is stored. What was appended or edited since then stays to be sent."""
        marks = self._marks
        marks.stored = pending.start + len(pending.items)
        if not pending.items:
            return
        if marks.saved == pending.start:
            for now, sent in zip(self._since(marks.saved), pending.items, strict=False):
                if now.value is not sent.value or now.kind != sent.kind:
                    break
                marks.saved += 1
            n_messages = _n_messages(self._messages, marks.kinds, marks.saved)
            marks.encoded[IS_MESSAGE].forget(n_messages)
            marks.encoded[IS_RESULT].forget(marks.saved - n_messages)

    def _since(self, start: int) -> Iterator[Item]:
        return Items(self.kinds, self._messages, self.pairs).since(start)


def pairs_of(marks: Marks, results: dict[StepKey, Any]) -> list[Sequence[Any]]:
    """Return the step results as they were recorded, and keep them: entries are known again as objects."""
    pairs = marks.pairs
    if pairs is None:
        pairs = marks.pairs = [ReadOnlyList(pair) for pair in results.items()]
    return pairs
