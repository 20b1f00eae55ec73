"""The two views on a log: `MessageLog`, a list, and `StepResults`, a dict. Their values are read-only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, overload

from holdall._native import msgpack_encode
from holdall.errors import ArgumentError
from holdall.state.log import (
    IS_MESSAGE,
    IS_RESULT,
    MESSAGE,
    STEP_RESULT,
    Item,
    Marks,
    Message,
    Pending,
    StepKey,
    pairs_of,
)

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MESSAGE", "STEP_RESULT", "Item", "Message", "MessageLog", "Pending", "StepKey", "StepResults"]

T = TypeVar("T")


class MessageLog(list[Message]):
    """The messages: a list whose elements are read-only, and which knows what is stored.

    Reading gives dicts; an edit goes through assignment, `messages[i] = {**messages[i], "content": "..."}`, and costs
    the next save what follows it. A streamed message is appended when it is complete, or with a status.
    """

    __slots__ = ("_marks",)
    __hash__ = None

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        super().__init__(messages)
        self._marks: Marks

    def bind(self, marks: Marks) -> None:
        """Note changes in `marks`."""
        self._marks = marks

    def _item(self, message: Any, index: int) -> Item:
        return Item.of(MESSAGE, message, path=f"messages[{index}]")

    def append(self, message: Message) -> None:
        """Add a message, as it is now: later changes of the caller's dict are not seen."""
        item = self._item(message, len(self))
        self._marks.add(IS_MESSAGE, item.bytes_of_value())
        super().append(item.value)

    def extend(self, messages: Iterable[Message]) -> None:
        """Add messages, all or, where one cannot be stored, none."""
        _check_several(messages)
        items = [self._item(message, len(self) + n) for n, message in enumerate(messages)]
        self._add(items)

    def _add(self, items: list[Item]) -> None:
        for item in items:
            self._marks.add(IS_MESSAGE, item.bytes_of_value())
        super().extend(item.value for item in items)

    def insert(self, index: SupportsIndex, message: Message) -> None:
        """Insert a message; the next save sends what follows it again."""
        at = slice(index, None).indices(len(self))[0]
        if at >= len(self):
            self.append(message)
            return
        item = self._item(message, at)
        self._marks.inserted(IS_MESSAGE, at)
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
        item = self._item(message, at)
        self._marks.replaced(IS_MESSAGE, at, item.bytes_of_value())
        super().__setitem__(at, item.value)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        at = range(len(self))[index]
        gone = sorted(at) if isinstance(at, range) else [at]
        self._marks.removed(IS_MESSAGE, gone)
        super().__delitem__(index)

    def reset(self, messages: Iterable[Message]) -> None:
        """Make the log equal to `messages`; a common beginning stays stored."""
        _check_several(messages)
        new = list(messages)
        same = 0
        for old, value in zip(self, new, strict=False):
            if old is not value and msgpack_encode(old) != msgpack_encode(value, path=f"messages[{same}]"):
                break
            same += 1
        items = [self._item(message, same + n) for n, message in enumerate(new[same:])]
        self._marks.removed(IS_MESSAGE, range(same, len(self)))
        super().__delitem__(slice(same, None))
        self._add(items)

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

    __slots__ = ("_marks",)
    __hash__ = None

    def __init__(self, pairs: Iterable[Sequence[Any]] = ()) -> None:
        super().__init__(pairs)  # type: ignore[arg-type]
        self._marks: Marks

    def bind(self, marks: Marks) -> None:
        """Note changes in `marks`."""
        self._marks = marks

    def __setitem__(self, step: StepKey, result: Any) -> None:
        if type(step) is not int and type(step) is not str:
            raise ArgumentError(f"a step is an int or a str, not {type(step).__name__}")
        item = Item.of_step(step, result)
        pairs_of(self._marks, self).append(item.value)
        self._marks.add(IS_RESULT, item.bytes_of_value())
        super().__setitem__(step, item.value[1])

    def __delitem__(self, step: StepKey) -> None:
        pairs = pairs_of(self._marks, self)
        super().__delitem__(step)
        # Every record of the step has to go.
        gone = [n for n, pair in enumerate(pairs) if pair[0] == step]
        self._marks.removed(IS_RESULT, gone)
        for n in reversed(gone):
            del pairs[n]

    def reset(self, results: Mapping[StepKey, Any]) -> None:
        """Make the results equal to `results`; those that are unchanged stay stored."""
        new = dict(results)
        if list(new)[: len(self)] != list(self):
            self.clear()
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
        """Take the last step out and return it with its result."""
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


def _check_several(messages: object) -> None:
    """Refuse one message where several are wanted: its keys, or its characters, would be taken for messages."""
    if isinstance(messages, (str, bytes, Mapping)):
        raise ArgumentError(
            f"messages must be a list of messages, not one {type(messages).__name__}; append(message) adds one"
        )
