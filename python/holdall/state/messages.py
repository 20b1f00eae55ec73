"""The log of a state: messages and step results in the order in which they came, and how much of it is stored.

A store holds one log per record, in which `seq` counts over both kinds. Here it is one list of items in that order,
with two views on it: `MessageLog`, a list, and `StepResults`, a dict. Items never change; an edit puts another item in the
place and moves the watermark back to it, so that the next save says "keep the first n" and appends from there.

    saved    how many leading items are known to stand in the store just as they are here
    stored   how many entries the store holds; beyond `saved` they are stale and will be cut
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, SupportsIndex, TypeVar, overload

from holdall._native import msgpack_decode, msgpack_encode
from holdall.errors import ArgumentError, EncodeError

if TYPE_CHECKING:
    from typing_extensions import Self

Message = dict[str, Any]
StepKey = int | str
T = TypeVar("T")

MESSAGE: Final = "message"
STEP_RESULT: Final = "step_result"


class Item:
    """One entry of the log: its kind, its value, read-only, and the bytes of the value until they are stored."""

    __slots__ = ("kind", "packed", "seq", "value")

    def __init__(self, kind: str, value: Any, packed: bytes | None, seq: int) -> None:
        self.kind = kind
        self.value = value
        self.packed = packed
        self.seq = seq

    @classmethod
    def of(cls, kind: str, value: Any, *, path: str) -> Item:
        """Take a snapshot of `value`; an `EncodeError` names the path of what cannot be stored."""
        packed = msgpack_encode(value, path=path)
        return cls(kind, msgpack_decode(packed, frozen=True), packed, -1)

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


class Log:
    """The items in order, and the watermark."""

    __slots__ = ("items", "saved", "stored")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.saved = 0
        self.stored = 0

    def add(self, item: Item) -> Item:
        """Append `item`."""
        item.seq = len(self.items)
        self.items.append(item)
        return item

    def replace(self, old: Item, new: Item) -> Item:
        """Put `new` where `old` stands."""
        new.seq = old.seq
        self.items[old.seq] = new
        self.saved = min(self.saved, old.seq)
        return new

    def insert_before(self, old: Item, new: Item) -> Item:
        """Put `new` in front of `old`."""
        at = old.seq
        self.items.insert(at, new)
        self._renumber(at)
        return new

    def drop(self, items: Iterable[Item]) -> None:
        """Take `items` out."""
        seqs = {item.seq for item in items}
        if seqs:
            first = min(seqs)
            self.items[first:] = [item for item in self.items[first:] if item.seq not in seqs]
            self._renumber(first)

    def _renumber(self, first: int) -> None:
        self.saved = min(self.saved, first)
        for seq in range(first, len(self.items)):
            self.items[seq].seq = seq

    def pending(self) -> Pending:
        """Return what has to be sent; nothing changes until `mark_saved`."""
        keep = self.saved if self.stored > self.saved else None
        return Pending(self.saved, keep, tuple(self.items[self.saved :]))

    def mark_saved(self, pending: Pending) -> None:
        """Record that `pending` is stored. What was appended or edited since then stays to be sent."""
        self.stored = pending.start + len(pending.items)
        if self.saved == pending.start:
            now = self.items[pending.start : self.stored]
            for item, sent in zip(now, pending.items, strict=False):
                if item is not sent:
                    break
                item.packed = None
                self.saved += 1


class MessageLog(list[Message]):
    """The messages: a list whose elements are read-only, and which knows what is stored.

    Reading gives dicts; an edit goes through assignment, `messages[i] = {**messages[i], "content": "..."}`, and costs
    the next save what follows it. A streamed message is appended when it is complete, or with a status.
    """

    __slots__ = ("_items", "_log")
    __hash__ = None

    def __init__(self, log: Log, items: Iterable[Item] = ()) -> None:
        self._log = log
        self._items: list[Item] = list(items)
        super().__init__(item.value for item in self._items)

    def _item(self, message: Any, index: int) -> Item:
        return Item.of(MESSAGE, message, path=f"messages[{index}]")

    def append(self, message: Message) -> None:
        """Add a message, as it is now: later changes of the caller's dict are not seen."""
        item = self._log.add(self._item(message, len(self)))
        self._items.append(item)
        super().append(item.value)

    def extend(self, messages: Iterable[Message]) -> None:
        """Add messages, all or, where one cannot be stored, none."""
        items = [self._item(message, len(self) + n) for n, message in enumerate(messages)]
        for item in items:
            self._items.append(self._log.add(item))
        super().extend(item.value for item in items)

    def insert(self, index: SupportsIndex, message: Message) -> None:
        """Insert a message; the next save sends what follows it again."""
        at = slice(index, None).indices(len(self))[0]
        if at >= len(self):
            self.append(message)
            return
        item = self._log.insert_before(self._items[at], self._item(message, at))
        self._items.insert(at, item)
        super().insert(at, item.value)

    @overload
    def __setitem__(self, index: SupportsIndex, message: Message) -> None: ...
    @overload
    def __setitem__(self, index: slice, message: Iterable[Message]) -> None: ...
    def __setitem__(self, index: Any, message: Any) -> None:
        if isinstance(index, slice):
            changed = list(self)
            changed[index] = message
            self.reset(changed)
            return
        at = range(len(self))[index]
        item = self._log.replace(self._items[at], self._item(message, at))
        self._items[at] = item
        super().__setitem__(at, item.value)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        gone = self._items[index] if isinstance(index, slice) else [self._items[index]]
        self._log.drop(gone)
        del self._items[index]
        super().__delitem__(index)

    def reset(self, messages: Iterable[Message]) -> None:
        """Make the log equal to `messages`; a common beginning stays stored."""
        new = list(messages)
        same = 0
        for old, value in zip(self, new, strict=False):
            if old is not value and self._items[same].bytes_of_value() != msgpack_encode(
                value, path=f"messages[{same}]"
            ):
                break
            same += 1
        items = [self._item(message, same + n) for n, message in enumerate(new[same:])]
        self._log.drop(self._items[same:])
        del self._items[same:]
        super().__delitem__(slice(same, None))
        for item in items:
            self._items.append(self._log.add(item))
        super().extend(item.value for item in items)

    def pop(self, index: SupportsIndex = -1) -> Message:
        """Take a message out and return it."""
        message = self[index]
        del self[index]
        return message

    def remove(self, message: Message) -> None:
        """Take the first message that is equal out."""
        del self[self.index(message)]

    def clear(self) -> None:
        """Take all messages out."""
        del self[:]

    def reverse(self) -> None:
        """Turn the order round."""
        self.reset(self[::-1])

    def sort(self, **how: Any) -> None:
        """Sort as `list.sort` does."""
        self.reset(sorted(self, **how))

    def __iadd__(self, messages: Iterable[Message]) -> Self:  # type: ignore[override, misc]
        self.extend(messages)
        return self

    def __imul__(self, n: SupportsIndex) -> Self:
        self.reset(list(self) * n)
        return self

    def __reduce_ex__(self, _protocol: object) -> tuple[Any, ...]:
        return (list, (list(self),))

    def __copy__(self) -> list[Message]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Message]:
        return list(self)  # the elements are read-only


class StepResults(dict[StepKey, Any]):
    """What each step gave: a dict from step to result, read-only results; a step recorded twice keeps the last."""

    __slots__ = ("_items", "_log")
    __hash__ = None

    def __init__(self, log: Log, items: Iterable[Item] = ()) -> None:
        self._log = log
        # Every record of a step, since all have to go where the step is deleted.
        self._items: dict[StepKey, list[Item]] = {}
        super().__init__()
        for item in items:
            self._take(item)

    def _take(self, item: Item) -> None:
        step, result = item.value
        self._items.setdefault(step, []).append(item)
        super().__setitem__(step, result)

    def __setitem__(self, step: StepKey, result: Any) -> None:
        if type(step) is not int and type(step) is not str:
            raise ArgumentError(f"a step is an int or a str, not {type(step).__name__}")
        self._take(self._log.add(Item.of_step(step, result)))

    def __delitem__(self, step: StepKey) -> None:
        super().__delitem__(step)
        self._log.drop(self._items.pop(step))

    def reset(self, results: Mapping[StepKey, Any]) -> None:
        """Make the results equal to `results`; those that are unchanged stay stored."""
        new = dict(results)
        if list(new)[: len(self)] != list(self):
            self.clear()
        for step in [step for step in self if step not in new]:
            del self[step]
        for step, result in new.items():
            if step not in self or msgpack_encode(self[step]) != msgpack_encode(result, path=f"step_results[{step!r}]"):
                self[step] = result

    @overload
    def pop(self, step: StepKey, /) -> Any: ...
    @overload
    def pop(self, step: StepKey, default: T, /) -> Any | T: ...
    def pop(self, step: StepKey, *default: Any) -> Any:
        """Take the result of a step out and return it."""
        if step not in self and default:
            return default[0]
        result = self[step]
        del self[step]
        return result

    def popitem(self) -> tuple[StepKey, Any]:
        """Take the step that was recorded first last out and return it with its result."""
        if not self:
            raise KeyError("step_results is empty")
        step = next(reversed(self))
        return step, self.pop(step)

    def clear(self) -> None:
        """Take all results out."""
        for step in list(self):
            del self[step]

    def setdefault(self, step: StepKey, default: Any = None) -> Any:
        """Return the result of a step, recording `default` where there is none."""
        if step not in self:
            self[step] = default
        return self[step]

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Record the results of several steps."""
        for step, result in dict(*args, **kwargs).items():
            self[step] = result

    def __ior__(self, other: Any) -> Self:  # type: ignore[override, misc]
        self.update(other)
        return self

    def __reduce_ex__(self, _protocol: object) -> tuple[Any, ...]:
        return (dict, (dict(self),))

    def __copy__(self) -> dict[StepKey, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[StepKey, Any]:
        return dict(self)
