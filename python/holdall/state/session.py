"""`SessionState`: what an agent session is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Context, Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, overload

from holdall._native import Entries, LastLog, LogView
from holdall.errors import ArgumentError
from holdall.state.log import (
    IS_RESULT,
    MESSAGE,
    Item,
    Items,
    Log,
    Marks,
    Message,
    Pending,
    StepKey,
    UnreadLog,
    pairs_of,
)
from holdall.state.messages import MessageLog, StepResults
from holdall.state.values import thaw

Cost = float | Decimal
# The two views on the log, and what both note their changes in.
Views = tuple[MessageLog, StepResults, Marks]

MAX_ID_BYTES: Final = 4096
DEFAULT_TTL_S: Final = 3600
# Digits of a sum of costs: from 10^-30 to 10^30 nothing is rounded.
_EXACT: Final = Context(prec=60)


def check_id(what: str, value: object) -> str:
    """Return an id that every store can hold: opaque, 1 to 4096 bytes of UTF-8, without NUL.

    Raises:
        ArgumentError: It is none; a `ValueError`.
    """
    if type(value) is str and value.isascii() and 0 < len(value) <= MAX_ID_BYTES and "\0" not in value:
        return value
    if type(value) is not str:
        raise ArgumentError(f"{what} must be a str, not {type(value).__name__}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ArgumentError(f"{what} holds a lone surrogate, which no store can keep") from None
    if not 0 < size <= MAX_ID_BYTES:
        raise ArgumentError(f"{what} must have 1 to {MAX_ID_BYTES} bytes in UTF-8, it has {size}")
    if "\0" in value:
        raise ArgumentError(f"{what} holds a NUL, which no store can keep")
    return value


# What became of the state that was loaded last: who asked for its log will ask for the next one's, and one pass is cheaper than two.
last_log: Final = LastLog()


class _Messages(LogView):
    """The field `messages`: reading gives the log, assigning makes the log equal to what is assigned."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, state: None, owner: type[SessionState]) -> tuple[Message, ...]: ...
        @overload
        def __get__(self, state: SessionState, owner: type[SessionState]) -> MessageLog: ...
        def __get__(self, state: SessionState | None, owner: type[SessionState]) -> Any: ...

    def __set__(self, state: SessionState, messages: Iterable[Message]) -> None:
        log = state.messages
        if messages is not log:
            log.reset(messages)


class _StepResults(LogView):
    """The field `step_results`, likewise."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __get__(self, state: None, owner: type[SessionState]) -> tuple[()]: ...
        @overload
        def __get__(self, state: SessionState, owner: type[SessionState]) -> StepResults: ...
        def __get__(self, state: SessionState | None, owner: type[SessionState]) -> Any: ...

    def __set__(self, state: SessionState, results: Mapping[StepKey, Any]) -> None:
        log = state.step_results
        if results is not log:
            log.reset(results)


@dataclass(eq=False, repr=False)
class SessionState:
    """Everything a worker needs to go on with a session.

    Attributes:
        session_id: Opaque, 1 to 4096 bytes of UTF-8, without NUL.
        user_id: Likewise.
        messages: The conversation. Elements are read-only; edit with `messages[i] = {...}`.
        summary: Of what is no longer in the window.
        current_step: The last step that was begun or done, counted as the caller counts.
        plan: What is to be done.
        step_results: From step (an int or a str) to what it gave, read-only; a step recorded twice keeps the last.
        active_tools: Names of the tools in use.
        accumulated_cost: In the caller's currency, a float or a Decimal, kept as it is. Start with `Decimal(0)` where
            sums must be exact, and add with `add_cost`.
        token_count: Tokens used so far.
        version: The number of the stored version that this state was loaded from or last saved as; 0: never stored.
        ttl_seconds: How long the record lives after each save; None for ever.
        status: "active", or what the caller says.
        metadata: The caller's own values.
    """

    session_id: str
    user_id: str
    messages: _Messages = _Messages(0, last_log)
    summary: str | None = None
    current_step: int = 0
    plan: list[Any] = field(default_factory=list)
    step_results: _StepResults = _StepResults(1, last_log)
    active_tools: list[Any] = field(default_factory=list)
    accumulated_cost: Cost = 0.0
    token_count: int = 0
    version: int = 0
    ttl_seconds: float | None = DEFAULT_TTL_S
    status: str = "active"
    metadata: dict[str, Any] = field(default_factory=dict)

    # Of the stored record, drawn by the store when it was created: goes with `version`, and is no part of the value.
    generation = ""
    # Whose that record is, "" where that is not known: who changes `user_id` hands the session over, and a save asks whether to.
    stored_user_id = ""

    def __post_init__(self) -> None:
        check_id("session_id", self.session_id)
        check_id("user_id", self.user_id)

    if not TYPE_CHECKING:  # to a type checker every name would be one

        def __setattr__(self, name: str, value: Any) -> None:
            if name not in _SET and type(self) is SessionState:
                raise AttributeError(
                    f"a session has no field {name!r}, and would not keep it; use state.metadata[{name!r}]"
                )
            object.__setattr__(self, name, value)

    def _views(self) -> Views:
        views: Views | None = self.__dict__.get("_log_views")
        if views is not None:
            return views
        unread: UnreadLog | None = self.__dict__.get("_unread")
        if unread is None:
            views = _views_of(Items(b"", [], []))
        else:
            last_log.is_read = True
            views = self.__dict__.pop("_made", None) or _read(unread)
        # Of several threads that ask first, all get what one of them made.
        views = self.__dict__.setdefault("_log_views", views)
        self.__dict__.pop("_unread", None)
        return views

    @property
    def log(self) -> Log:
        """Messages and step results in the order in which they came, with the watermark."""
        return Log(*self._views())

    @property
    def unread(self) -> UnreadLog | None:
        """The log as it was loaded, until somebody asks for it."""
        unread: UnreadLog | None = self.__dict__.get("_unread")
        return unread

    def load_log(self, items: Iterable[Item], *, stored: bool) -> None:
        """Replace the log by `items`; `stored` says that the store holds exactly these."""
        views = _views_of(Items.of(items))
        if stored:
            marks = views[2]
            marks.saved = marks.stored = len(marks.kinds)
        self.__dict__["_log_views"] = views
        self.__dict__.pop("_unread", None)
        self.__dict__.pop("_made", None)

    @classmethod
    def of_fields(cls, fields: dict[str, Any]) -> SessionState:
        """Make a state of all `HEAD_FIELDS`, which are checked and become its own, and of no log."""
        state = object.__new__(cls)
        fields.setdefault("version", 0)
        state.__dict__ = fields
        return state

    def pending(self) -> Pending:
        """Return what a save has to append, as it is now. Changes nothing; see `mark_saved`."""
        return self.log.pending()

    def mark_saved(
        self, version: int, pending: Pending, *, generation: str | None = None, user_id: str | None = None
    ) -> None:
        """Record that the store took `pending` as `version`. Not called, a failed save leaves the state as it was."""
        self.log.mark_saved(pending)
        self.version = version
        if generation is not None:
            self.generation = generation
        self.stored_user_id = user_id or ""

    def stand_on(self, version: int, generation: str) -> None:
        """Take the state for a change of that stored version, none of whose log is kept: a save replaces all of it."""
        self.version, self.generation, self.stored_user_id = version, generation, ""
        log = self.log
        log.saved, log.stored = 0, max(log.stored, 1)

    def add_cost(self, amount: Cost) -> Cost:
        """Add to `accumulated_cost` and return the sum.

        Where the sum so far, or the amount, is a Decimal, the sum is exact: a float counts as the decimal number that
        it prints as, so that ten times 0.1 is 1.
        """
        total = self.accumulated_cost
        if isinstance(total, Decimal) or isinstance(amount, Decimal):
            self.accumulated_cost = _EXACT.add(_decimal(total), _decimal(amount))
        else:
            self.accumulated_cost = total + amount
        return self.accumulated_cost

    def copy(self) -> SessionState:
        """Return a state of its own: same values, same version, same watermark."""
        twin = SessionState.of_fields(dict(zip(HEAD_FIELDS, map(thaw, _head_values(self)), strict=True)))
        messages, results, marks = self._views()
        views = _views_of(Items(marks.kinds, messages, pairs_of(marks, results)))
        views[2].saved, views[2].stored = marks.saved, marks.stored
        twin.__dict__["_log_views"] = views
        twin.version, twin.generation, twin.stored_user_id = self.version, self.generation, self.stored_user_id
        return twin

    def __copy__(self) -> SessionState:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> SessionState:
        return self.copy()

    def __repr__(self) -> str:
        # Counts and not content: a state is printed in logs and tracebacks.
        return (
            f"SessionState(session_id={self.session_id!r}, user_id={self.user_id!r}, version={self.version}, "
            f"status={self.status!r}, current_step={self.current_step!r}, messages: {len(self.messages)}, "
            f"step_results: {len(self.step_results)})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SessionState):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        """For multiprocessing between workers of one release; what is kept goes through `StateSerializer`."""
        log = self.log
        return {
            "head": {name: getattr(self, name) for name in HEAD_FIELDS},
            "log": [(item.kind, thaw(item.value)) for item in log.items],
            "mark": (log.saved, log.stored),
            "version": (self.version, self.generation, self.stored_user_id),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state["head"])
        self.load_log(
            (
                Item.of(kind, value, path="messages") if kind == MESSAGE else Item.of_step(*value)
                for kind, value in state["log"]
            ),
            stored=False,
        )
        self.log.saved, self.log.stored = state["mark"]
        self.version, self.generation, self.stored_user_id = state["version"]


def _views_of(items: Items) -> Views:
    messages, pairs = MessageLog(items.messages), items.pairs[:]
    results = StepResults(pairs)
    encoded = Entries(), Entries()
    encoded[0].forget_all(len(messages))
    encoded[1].forget_all(len(pairs))
    marks = Marks(bytearray(items.kinds), pairs, encoded)
    messages.bind(marks)
    results.bind(marks)
    return messages, results, marks


def _read(unread: UnreadLog) -> Views:
    read_messages, read_results, order = unread
    messages, results = MessageLog.__new__(MessageLog), StepResults.__new__(StepResults)
    read_messages.extend(messages)
    read_results.update(results)
    n_results = len(read_results)
    pairs = None
    if len(results) < n_results:
        # Some step was recorded twice.
        pairs = read_results.read()[:]
        results = StepResults(pairs)
    kinds = bytearray(len(messages)) + bytes([IS_RESULT]) * n_results if order is None else bytearray(order)
    marks = Marks(kinds, pairs, (Entries(read_messages), Entries(read_results)))
    messages.bind(marks)
    results.bind(marks)
    return messages, results, marks


def _decimal(amount: Cost) -> Decimal:
    return amount if isinstance(amount, Decimal) else Decimal(repr(amount))


FIELDS: Final = tuple(f.name for f in fields(SessionState))
LOG_FIELDS: Final = ("messages", "step_results")
HEAD_FIELDS: Final = tuple(name for name in FIELDS if name not in (*LOG_FIELDS, "version"))
_SET: Final = frozenset((*FIELDS, "generation", "stored_user_id", "__dict__"))
_head_values: Final = attrgetter(*HEAD_FIELDS)
