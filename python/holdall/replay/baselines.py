"""What most agents do: send everything, slide a window, keep a rolling summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdall._native import Tokenizer, extractive_summary
from holdall.context.manager import COVERS, ContextWindowManager
from holdall.replay.prices import turns_between_folds
from holdall.replay.request import Request, Window

# Share of the budget in use after a fold: that of `ContextWindowManager`, or less where turns are large.
LOW_WATER: Final = 0.6
LOWEST_WATER: Final = 0.3


def full_history(request: Request) -> Window:
    """Everything, whether it fits or not."""
    return Window(request.messages, request.system, request.tools)


def sliding_window(request: Request) -> Window:
    """The system prompt, the current turn and as many of the newest groups as fit; recomputed at every turn."""
    kept = set(request.required)
    room = request.budget - request.base - sum(request.tokens[n] for n in kept)
    for group in reversed(request.groups):
        new = [n for n in group if n not in kept]
        room -= sum(request.tokens[n] for n in new)
        if room < 0:
            break
        kept.update(new)
    return request.window(sorted(kept))


class _State:
    """What the manager reads of a session."""

    def __init__(self, messages: Sequence[Any], summary: str | None, covers: int) -> None:
        self.messages = messages
        self.summary = summary
        self.metadata: Any = {COVERS: covers} if summary else {}


class RollingSummary:
    """A window that slides in steps, with what slid out kept as a summary: `ContextWindowManager`.

    The summary itself is picked sentences, so that replay needs no model; its calls are priced as a model's. A fold makes
    room for as many turns as the summary needs to pay for itself (`turns_between_folds`), at the pace of the conversation,
    and for two fifths of the budget at least.
    """

    def __init__(self) -> None:
        self._managers: dict[int, ContextWindowManager] = {}
        self._calls: list[tuple[int, int]] = []

    def __call__(self, request: Request) -> Window:
        """Build the window."""
        manager = self._managers.get(request.budget)
        if manager is None:
            manager = self._managers[request.budget] = ContextWindowManager(
                request.budget,
                tokenizer=request.tokenizer,
                summarizer=lambda text: self._summarize(text, request.tokenizer, max(request.budget // 10, 1)),
                format=request.format,  # type: ignore[arg-type]
            )
        manager.low_water = self._low_water(request, manager)
        state = _State(request.messages, request.memory.get("summary"), request.memory.get("covers", 0))
        self._calls.clear()
        window = manager.build(state, tools=request.tools, system=request.system)
        window.apply(state)
        request.memory["summary"], request.memory["covers"] = state.summary, state.metadata.get(COVERS, 0)
        return Window(window.messages, window.system, window.tools, summarizer=tuple(self._calls))

    def _summarize(self, text: str, tokenizer: Tokenizer, size: int) -> str:
        summary = extractive_summary(text, size, tokenizer=tokenizer) or ""
        self._calls.append((tokenizer.count(text), tokenizer.count(summary)))
        return summary

    @staticmethod
    def _low_water(request: Request, manager: ContextWindowManager) -> float:
        said = sum(request.tokens)
        rounds = max(sum(shape.role == "assistant" for shape in request.shapes), 1)
        summary = manager.summary_tokens
        turns = turns_between_folds(request.price, max(request.budget // 2, summary + 1), summary)
        # After a fold the prompt cache has to be written anew, so the window falls to the manager's low water at least.
        return min(max(1 - turns * (said / rounds) / request.budget, LOWEST_WATER), LOW_WATER)
