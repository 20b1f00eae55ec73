"""Three-way merge of sessions: what two workers made of the same state, put together. Pure.

What only grows adds up; what is set is taken from the side that set it; what both set, differently, is a clash:

    messages            the base, then what theirs appended, then what ours appended; an edit or removal of old ones is
                        taken from the side that made it, entry by entry where both edited in place
    step_results        united; a step that both recorded must have given the same
    accumulated_cost, token_count
                        both sides' differences from the base are added
    current_step        the side that moved; where both did, the further one
    active_tools        a set: what either added is in, what either took out is out
    plan                as messages, but a change that both made alike counts once; elements that are dicts merge by key
    metadata            by key, dicts within it likewise
    summary, status, ttl_seconds
                        the side that changed it

So for states without a clash, `merge(base, ours, base)` is ours and `merge(base, base, theirs)` is theirs; swapping the sides
changes the order of new entries and nothing else; and three workers' changes may be merged in either grouping, but for a plan
that two of them changed alike and the last digit of costs that are floats (a Decimal is exact).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import takewhile
from math import isfinite
from operator import is_
from typing import Any, Final, TypeVar

from holdall._native import msgpack_encode
from holdall.errors import ArgumentError, MergeConflictError
from holdall.state.log import MESSAGE, STEP_RESULT, Item, Items
from holdall.state.session import Cost, SessionState

_T = TypeVar("_T")


class _Missing:
    """What a key that is not there is, in a `MergeConflictError`."""

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

_SET: Final = ("summary", "status", "ttl_seconds")


def merge(base: SessionState, ours: SessionState, theirs: SessionState) -> SessionState:
    """Return a state with both sides' changes since `base`, to be saved over `theirs`.

    Args:
        base: What both sides started from.
        ours: Our changes to it; none of the three is changed here.
        theirs: What is stored now. The result is at its version, and a save of it appends what only we have.

    Raises:
        MergeConflictError: Both changed the same thing differently; it names the field and holds both sides.
        ArgumentError: The three are not of one session.
    """
    if len({(state.session_id, state.user_id) for state in (base, ours, theirs)}) != 1:
        raise ArgumentError("merge takes three states of one session of one user")
    merged = SessionState(session_id=theirs.session_id, user_id=theirs.user_id)
    for name in _SET:
        setattr(merged, name, _value(name, *(getattr(state, name) for state in (base, ours, theirs))))
    merged.metadata = _value("metadata", base.metadata, ours.metadata, theirs.metadata)
    merged.plan = _plan(base.plan, ours.plan, theirs.plan)
    merged.active_tools = _tools(base.active_tools, ours.active_tools, theirs.active_tools)
    for name, put_together in (("current_step", _furthest), ("token_count", _sum), ("accumulated_cost", _cost)):
        setattr(merged, name, _number(name, put_together, *(getattr(state, name) for state in (base, ours, theirs))))
    _put_log(merged, _log(base.log.items, ours.log.items, theirs.log.items), theirs)
    merged.version, merged.generation = theirs.version, theirs.generation
    merged.stored_user_id = theirs.stored_user_id
    # a copy, so that no list or dict is shared with the three
    return merged.copy()


def _same(one: Any, other: Any) -> bool:
    """Whether they are stored alike: 1 is not True, and NaN is itself."""
    if one is other:
        return True
    if one is MISSING or other is MISSING or type(one) is not type(other):
        return False
    return msgpack_encode(one) == msgpack_encode(other)


def _value(field: str, base: Any, ours: Any, theirs: Any) -> Any:
    if _same(ours, theirs) or _same(ours, base):
        return theirs
    if _same(theirs, base):
        return ours
    if isinstance(ours, dict) and isinstance(theirs, dict):
        before = base if isinstance(base, dict) else {}
        merged = {}
        for key in [*theirs, *(key for key in ours if key not in theirs)]:
            sides = (side.get(key, MISSING) for side in (before, ours, theirs))
            value = _value(f"{field}[{key!r}]", *sides)
            if value is not MISSING:
                merged[key] = value
        return merged
    raise _clash(field, base, ours, theirs)


def _clash(field: str, base: Any, ours: Any, theirs: Any) -> MergeConflictError:
    # the values are in the error's attributes and not in its text: they may be a conversation
    return MergeConflictError(
        f"{field} was changed by both sides, differently: choose one, and save over the version that is stored",
        field=field,
        base=base,
        ours=ours,
        theirs=theirs,
    )


def _number(field: str, put_together: Callable[[Any, Any, Any], Any], base: Any, ours: Any, theirs: Any) -> Any:
    """Return the side that changed, or both put together; what is no number, or beyond all numbers, cannot be."""
    if _same(ours, base):
        return theirs
    if _same(theirs, base):
        return ours
    try:
        return put_together(base, ours, theirs)
    except (TypeError, ArithmeticError):
        raise _clash(field, base, ours, theirs) from None


def _furthest(_base: int, ours: int, theirs: int) -> int:
    return max(ours, theirs)


def _sum(base: int, ours: int, theirs: int) -> int:
    return ours + theirs - base


def _cost(base: Cost, ours: Cost, theirs: Cost) -> Cost:
    if any(isinstance(cost, Decimal) for cost in (base, ours, theirs)):
        merged = SessionState("-", "-", accumulated_cost=_decimal(ours))
        merged.add_cost(theirs)
        return merged.add_cost(-_decimal(base))
    floats = [float(cost) for cost in (base, ours, theirs)]
    if not all(map(isfinite, floats)):
        return floats[1] + (floats[2] - floats[0])
    # rounded once, whatever the sizes of the three
    exact = [Fraction(cost) for cost in (base, ours, theirs)]
    return float(exact[1] + exact[2] - exact[0])


def _decimal(cost: Cost) -> Decimal:
    # a float counts as the decimal number that it prints as, as in `SessionState.add_cost`
    return cost if isinstance(cost, Decimal) else Decimal(repr(cost))


def _are_lists(*sides: object) -> bool:
    return all(isinstance(side, (list, tuple)) for side in sides)


def _tools(base: list[Any], ours: list[Any], theirs: list[Any]) -> list[Any]:
    if _same(ours, base) or _same(ours, theirs):
        return theirs
    if _same(theirs, base):
        return ours
    if not _are_lists(base, ours, theirs):
        raise _clash("active_tools", base, ours, theirs)
    # a name that stands twice is one tool
    before, here, there = ({msgpack_encode(tool): tool for tool in side} for side in (base, ours, theirs))
    kept = [tool for key, tool in there.items() if key in here or key not in before]
    return kept + [tool for key, tool in here.items() if key not in before and key not in there]


def _plan(base: list[Any], ours: list[Any], theirs: list[Any]) -> list[Any]:
    if _same(ours, base) or _same(ours, theirs):
        return theirs
    if _same(theirs, base):
        return ours
    if not _are_lists(base, ours, theirs):
        raise _clash("plan", base, ours, theirs)
    keys = tuple([msgpack_encode(step) for step in side] for side in (base, ours, theirs))
    old, new_theirs, new_ours = _sequence(
        "plan", (base, ours, theirs), keys, lambda at, *sides: _value(f"plan[{at}]", *sides)
    )
    return [*old, *new_theirs, *new_ours]


def _log(base: Items, ours: Items, theirs: Items) -> Items:
    settled = _settled_steps(base.pairs, ours.pairs, theirs.pairs)
    if _begins_with(ours, base) and _begins_with(theirs, base):
        # nearly always: both have only appended
        old: Sequence[Item] | None = None
        new_theirs, new_ours = list(theirs.since(len(base))), list(ours.since(len(base)))
    else:
        old, new_theirs, new_ours = _edited_log((list(base), list(ours), list(theirs)))
    recorded = {item.value[0] for item in new_theirs if item.kind == STEP_RESULT} & settled
    added = Items.of([item for item in new_ours if item.kind == MESSAGE or item.value[0] not in recorded])
    before = theirs if old is None else Items.of([*old, *new_theirs])
    return Items(bytes(before.kinds) + bytes(added.kinds), before.messages + added.messages, before.pairs + added.pairs)


def _begins_with(side: Items, base: Items) -> bool:
    n = len(base.messages)
    return (
        side.kinds[: len(base)] == base.kinds
        and _same_values(side.messages[:n], base.messages)
        and _same_values(side.pairs[: len(base.pairs)], base.pairs)
    )


def _same_values(one: list[Any], other: list[Any]) -> bool:
    # the same objects where both sides come from one load
    return len(one) == len(other) and (all(map(is_, one, other)) or msgpack_encode(one) == msgpack_encode(other))


def _edited_log(sides: tuple[list[Item], list[Item], list[Item]]) -> tuple[list[Item], list[Item], list[Item]]:
    keys = _keys(sides)

    def edited(at: int, before: Item, here: Item, there: Item) -> Item:
        if keys[1][at] in (keys[0][at], keys[2][at]):
            return there
        if keys[2][at] == keys[0][at]:
            return here
        raise _clash(_place(sides[0], at), before.value, here.value, there.value)

    return _sequence("messages", sides, keys, edited)


def _keys(sides: Sequence[list[Item]]) -> tuple[list[Any], ...]:
    """Return what tells entries apart: their bytes, and for the beginning that all three share, as it is one object, a number."""
    shared = 0
    for one, other, third in zip(*sides, strict=False):
        if one.value is not other.value or one.value is not third.value:
            break
        shared += 1
    return tuple([*range(shared), *((item.kind, item.bytes_of_value()) for item in side[shared:])] for side in sides)


def _place(base: list[Item], at: int) -> str:
    item = base[at]
    if item.kind == STEP_RESULT:
        return f"step_results[{item.value[0]!r}]"
    return f"messages[{sum(before.kind == MESSAGE for before in base[:at])}]"


def _settled_steps(base: list[Any], ours: list[Any], theirs: list[Any]) -> set[Any]:
    """Return the steps whose result is what theirs has. Of a step the last entry counts: none of ours may stand behind."""
    if not ours or not theirs:
        return set()
    before, here, there = ({pair[0]: pair[1] for pair in side} for side in (base, ours, theirs))
    settled = set()
    for step in here.keys() & there.keys():
        result = _value(f"step_results[{step!r}]", before.get(step, MISSING), here[step], there[step])
        if _same(result, there[step]):
            settled.add(step)
    return settled


def _sequence(
    field: str,
    sides: tuple[list[_T], list[_T], list[_T]],
    keys: tuple[list[Any], ...],
    edited: Callable[..., _T],
) -> tuple[list[_T], list[_T], list[_T]]:
    """Merge three lists: return what either made of the base's elements, what theirs appended, and what ours did."""
    base, ours, theirs = sides
    end_ours, end_theirs = _end_of_base(keys[0], keys[1]), _end_of_base(keys[0], keys[2])
    n = len(base)
    ours_changed, theirs_changed = keys[1][:end_ours] != keys[0], keys[2][:end_theirs] != keys[0]
    if not ours_changed or keys[1][:end_ours] == keys[2][:end_theirs]:
        old = theirs[:end_theirs]
    elif not theirs_changed:
        old = ours[:end_ours]
    elif end_ours == end_theirs == n:
        old = [edited(at, base[at], ours[at], theirs[at]) for at in range(n)]
    else:
        raise _clash(field, base, ours, theirs)
    return old, theirs[end_theirs:], ours[end_ours:]


def _end_of_base(base: list[Any], side: list[Any]) -> int:
    """Return where in `side` the elements end that come from the base, changed or not; what follows was appended.

    Elements are taken to be the base's own in order; behind the last that is found unchanged, as many as the base still has
    are taken for edits in place.
    """
    if side[: len(base)] == base:
        return len(base)
    places: dict[Any, list[int]] = {}
    for at, key in enumerate(base):
        places.setdefault(key, []).append(at)
    last_base, last_side = -1, -1
    for at, key in enumerate(side):
        found = next((place for place in places.get(key, ()) if place > last_base), None)
        if found is not None:
            last_base, last_side = found, at
    return min(len(side), last_side + 1 + len(base) - 1 - last_base)


def _put_log(merged: SessionState, items: Items, theirs: SessionState) -> None:
    """Give the log to `merged`, and mark as stored what stands in the store as it is here: the beginning of theirs."""
    stored, saved = theirs.log.items, theirs.log.saved
    if not _begins_with(items, stored):
        saved = sum(1 for _ in takewhile(_is_same_item, zip(items, stored, strict=False)))
    merged.load_log(items, stored=False)
    merged.log.saved, merged.log.stored = min(saved, theirs.log.saved), theirs.log.stored


def _is_same_item(pair: tuple[Item, Item]) -> bool:
    one, other = pair
    return one.kind == other.kind and (one.value is other.value or _same(one.value, other.value))
