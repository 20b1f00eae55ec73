"""Never run, only type-checked: replay as a user writes it."""

from __future__ import annotations

from collections.abc import Sequence

from holdall.replay import Figures, Request, Row, Strategy, Trace, Window, load_traces, replay
from holdall.replay.trace import Message


def newest(request: Request) -> Sequence[Message]:
    """A function is a strategy."""
    return request.messages[-10:]


class Remembering:
    """So is an object."""

    def __call__(self, request: Request, /) -> Window:
        request.memory["turns"] = request.memory.get("turns", 0) + 1
        return request.window(range(len(request.messages)))


strategies: list[Strategy] = [newest, Remembering()]
traces: list[Trace] = load_traces(["talk.jsonl"], limit=3)
outcome = replay(traces, budgets=[4_000, 8_000], strategies=["optimal", "mine:newest", newest], model="gpt-4o", jobs=2)
figures: Sequence[Figures] = outcome.figures
rows: Sequence[Row] = outcome.rows
recall: float | None = figures[0].recall
dollars: float = rows[0].dollars
