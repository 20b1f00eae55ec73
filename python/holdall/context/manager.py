"""A sliding window over a session, with what slid out kept as a rolling summary inside the same budget."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

from holdall._native import (
    PackResult,
    Tokenizer,
    _chat_fingerprint,
    _chat_groups,
    _chat_parts,
    _shorten_head_tail,
    count_messages,
    extractive_summary,
)
from holdall.context.packer import ContextWindowPacker
from holdall.context.report import Dropped
from holdall.errors import ArgumentError, SummarizerError

Summarizer = Callable[[str], "str | Awaitable[str]"]

# Where a state keeps how many of its first messages the rolling summary stands for.
COVERS: Final = "summary_covers"
# Beside it: the fingerprint of the last of these, by which a history that was cut back since is known.
COVERS_UP_TO: Final = "summary_covers_up_to"
# Reasons of the packer that say the window is too small for all that is live.
CROWDED: Final = frozenset({"over_budget", "too_large", "summarized", "tool_dropped"})
# Renditions that say nothing was cut for want of room; calls that were never answered are left out of any window.
WHOLE: Final = frozenset({"full", "repaired"})
# A message of a transcript longer than this is cut: a summary of a 50,000-token log is not worth 50,000 tokens.
LONGEST_IN_TRANSCRIPT: Final = 2_000


class WindowState(Protocol):
    """What the manager reads of a session; `holdall.SessionState` is one."""

    messages: Sequence[Mapping[str, Any]]
    summary: str | None
    metadata: MutableMapping[str, Any]


@dataclass(frozen=True)
class Window:
    """A window that is ready to send, and the rolling summary it carries.

    Attributes:
        result: The packed request; its `index` figures count from `first`.
        summary: The rolling summary, None where nothing has slid out yet.
        covers: The summary stands for this many of the state's first messages.
        up_to: The fingerprint of the last of them, None for none.
        summarized: Messages that this build folded into the summary; 0 for most builds.
        summarizer_error: What the summarizer raised; the built-in extractive summary then took its place.
        dropped: What is neither in the window nor in the summary, by its index in the state, with the reason.
    """

    result: PackResult[Any]
    summary: str | None
    covers: int
    summarized: int = 0
    summarizer_error: Exception | None = None
    dropped: Sequence[Dropped] = field(default=())
    up_to: str | None = None

    @property
    def messages(self) -> list[Any]:
        """The messages to send, in the format they came in."""
        return list(self.result.messages)

    @property
    def system(self) -> Any:
        """The system prompt, where the format keeps it apart."""
        return self.result.system

    @property
    def tools(self) -> list[Any] | None:
        """The tools to send."""
        return self.result.tools

    @property
    def tokens(self) -> int:
        """Tokens of the request."""
        return self.result.tokens

    @property
    def budget(self) -> int:
        """Tokens there were for it."""
        return self.result.budget

    def apply(self, state: WindowState) -> None:
        """Keep the summary and how far it reaches in the state, so that the next build goes on from there."""
        state.summary = self.summary
        noted = {} if self.summary is None else {COVERS: self.covers, COVERS_UP_TO: self.up_to}
        for name in (COVERS, COVERS_UP_TO):
            if noted.get(name) is None:
                state.metadata.pop(name, None)
            else:
                state.metadata[name] = noted[name]


@dataclass(frozen=True)
class _Slide:
    """Which messages are live, and what has to be folded into the summary so that the others may go."""

    live: list[int]
    covers: int
    folded: Sequence[int] = ()
    transcript: str = ""
    # What there is without the slide, where nothing can be said of what would go.
    unslid: Window | None = None


class ContextWindowManager:
    """A sliding window with a rolling summary.

    The newest messages stay as they are. When they no longer fit, the oldest slide out, in whole groups (a call with its
    results), until `low_water` of the budget is in use: so the window, and with it a provider's prompt cache, changes only
    once in many turns. What slid out is summarised together with the summary so far, and the summary counts inside the
    budget. The system prompt and the current turn never slide out.

    Args:
        max_tokens: The context window, in tokens.
        tokenizer: The counter; o200k_base by default.
        output_reserve: Tokens kept free for the answer.
        summarizer: Text in, summary out; may be async, then use `abuild`. The built-in one picks sentences and needs no
            model. When it raises, the built-in one steps in and the window says so. Where no sentence fits, the
            beginning and the end stand for the whole, the cut marked.
        summary_tokens: What the summary may take; a tenth of the budget by default.
        low_water: Share of the budget in use after a slide, above 0 and at most 1.
        format: "openai", "responses" or "anthropic"; found from the messages by default.

    Raises:
        ArgumentError: A figure is outside its domain, or the summarizer is no function.
    """

    def __init__(
        self,
        max_tokens: int,
        *,
        tokenizer: Tokenizer | None = None,
        output_reserve: int = 0,
        summarizer: Summarizer | None = None,
        summary_tokens: int | None = None,
        low_water: float = 0.6,
        format: Literal["openai", "responses", "anthropic"] | None = None,  # noqa: A002 - the word the packer uses
    ) -> None:
        if not 0 < low_water <= 1:
            raise ArgumentError(f"low_water must be above 0 and at most 1, not {low_water}")
        if summarizer is not None and not callable(summarizer):
            raise ArgumentError(f"summarizer must be a function of a text, not {type(summarizer).__name__}")
        _chat_groups([], format=format)  # says which formats there are, where this is none
        self.tokenizer = tokenizer or Tokenizer("o200k_base")
        self.packer = ContextWindowPacker(max_tokens, tokenizer=self.tokenizer, output_reserve=output_reserve)
        self.budget = self.packer.budget  # a tokenizer's margin taken off
        self.summary_tokens = self.budget // 10 if summary_tokens is None else summary_tokens
        if not 0 < self.summary_tokens < self.budget:
            raise ArgumentError(
                f"summary_tokens must be between 1 and the budget of {self.budget}, not {self.summary_tokens}"
            )
        self.summarizer = summarizer
        self.low_water = low_water
        self.format = format

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(max_tokens={self.packer.max_tokens}, tokenizer={self.tokenizer!r}, budget={self.budget}, "
            f"summary_tokens={self.summary_tokens}, low_water={self.low_water})"
        )

    def build(self, state: WindowState, *, tools: Sequence[Any] | None = None, system: Any = None) -> Window:
        """Build the window of a state; the state is not changed (see `Window.apply`).

        Args:
            state: The session: messages, summary, metadata.
            tools: Tool schemas; they share the budget.
            system: The system prompt, where the format keeps it apart.

        Raises:
            RequiredOverflowError: The system prompt and the current turn alone do not fit.
            SummarizerError: The summarizer is async, or did not give text.
        """
        request = _Request(state, tools, system)
        slide, window = self._start(request)
        if window is not None:
            return window
        text, error = self._ask(slide)
        if inspect.isawaitable(text):
            if inspect.iscoroutine(text):
                text.close()
            raise SummarizerError("the summarizer is async: use `await manager.abuild(...)`")
        return self._finish(request, slide, text, error)

    async def abuild(self, state: WindowState, *, tools: Sequence[Any] | None = None, system: Any = None) -> Window:
        """Build as `build` does, awaiting an async summarizer."""
        request = _Request(state, tools, system)
        slide, window = self._start(request)
        if window is not None:
            return window
        text, error = self._ask(slide)
        if inspect.isawaitable(text):
            try:
                text = await text
            except Exception as raised:  # noqa: BLE001 - as in `_ask`
                text, error = None, raised
        return self._finish(request, slide, text, error)

    def _ask(self, slide: _Slide) -> tuple[Any, Exception | None]:
        """What the summarizer answers, which may have to be awaited, or what it raised."""
        try:
            return (self.summarizer(slide.transcript) if self.summarizer else None), None
        except Exception as raised:  # noqa: BLE001 - a caller's model may fail in any way; the window reports it
            return None, raised

    def _start(self, request: _Request) -> tuple[_Slide, Window | None]:
        """Pack what is live; where that fits whole, or nothing can slide out, it is the window."""
        found = _chat_groups(request.messages, format=self.format, system=request.system)
        # What tells the format may be among what slides out.
        request.format = found["format"]
        groups: list[Mapping[str, Any]] = found["groups"]
        covers = _covered(request, groups)
        stays = _stays(groups)
        now = _Slide([i for i in range(len(request.messages)) if i >= covers or i in stays], covers)
        result = self._pack(request, now, request.summary)
        whole = all(kept.rendition in WHOLE for kept in result.kept if kept.source in ("message", "summary"))
        crowded = any(gone.reason in CROWDED for gone in result.dropped if gone.source in ("message", "summary"))
        unslid = self._window(request, now, result, request.summary)
        if whole and not crowded:
            return now, unslid
        start = self._oldest_that_stays(request, groups, stays, covers)
        members = sorted(i for group in groups if not group["is_prompt"] for i in group["indices"])
        folded = [i for i in members if covers <= i < start]
        if not folded:
            # Only the current turn is left: the packer has already shortened what it may. Nothing to summarise (A13).
            return now, unslid
        live = [i for i in range(len(request.messages)) if i >= start or i in stays]
        return _Slide(live, start, folded, self._transcript(request, folded), unslid), None

    def _oldest_that_stays(
        self, request: _Request, groups: Sequence[Mapping[str, Any]], stays: frozenset[int], covers: int
    ) -> int:
        """The index that the window starts at after a slide to about `low_water` of the budget."""
        fixed = [request.messages[i] for i in sorted(stays)]
        used = self._count(fixed, request) + self.summary_tokens
        room = int(self.budget * self.low_water) - used
        nothing = count_messages([], tokenizer=self.tokenizer)
        start = int(groups[-1]["indices"][0]) if groups else len(request.messages)
        for group in reversed(groups[:-1]):
            first = int(group["indices"][0])
            if first < covers or group["is_prompt"]:
                break
            moving = [request.messages[i] for i in group["indices"] if i not in stays]
            room -= count_messages(moving, tokenizer=self.tokenizer, format=request.format) - nothing
            if room < 0:
                break
            start = first
        # Groups may stand inside one another: none is parted.
        for group in reversed(groups):
            if covers <= group["indices"][0] < start <= group["indices"][-1] and not group["is_prompt"]:
                start = int(group["indices"][0])
        return start

    def _count(self, messages: Sequence[Any], request: _Request) -> int:
        return count_messages(
            messages, tokenizer=self.tokenizer, system=request.system, tools=request.tools, format=request.format
        )

    def _transcript(self, request: _Request, indices: Sequence[int]) -> str:
        """What a summarizer reads: the summary so far, then who said what."""
        paragraphs = [request.summary] if request.summary else []
        for index in indices:
            message = request.messages[index]
            parts = _chat_parts(message, format=request.format or "openai")
            text = "\n".join(part[2] for part in parts if part[2].strip())
            short = self.tokenizer.cut(text, LONGEST_IN_TRANSCRIPT)
            if len(short) < len(text):
                short += f"\n[... {len(text) - len(short):,} characters cut ...]"
            paragraphs.append(f"{_speaker(message)}: {short or '[not text]'}")
        return "\n\n".join(paragraphs)

    def _finish(self, request: _Request, slide: _Slide, text: Any, error: Exception | None) -> Window:
        if text is not None and not isinstance(text, str):
            raise SummarizerError(f"the summarizer must return text, not {type(text).__name__}")
        summary = self.tokenizer.cut(text or "", self.summary_tokens).strip() or self._extracted(slide.transcript)
        if not summary and slide.unslid is not None:
            # Not one word of what would go can be kept, so it does not go: the packer says what it leaves out, and why.
            return replace(slide.unslid, summarizer_error=error)
        return self._window(request, slide, self._pack(request, slide, summary), summary, error)

    def _extracted(self, transcript: str) -> str:
        """The weightiest sentences; where none fits, the beginning and the end of all, the cut marked."""
        sentences = extractive_summary(transcript, self.summary_tokens, tokenizer=self.tokenizer)
        if sentences:
            return sentences
        if self.tokenizer.fits(transcript, self.summary_tokens):
            return transcript
        ends = _shorten_head_tail(transcript, self.summary_tokens, self.tokenizer)
        return "" if ends is None else ends[0]

    def _pack(self, request: _Request, slide: _Slide, summary: str | None) -> PackResult[Any]:
        return self.packer.pack_messages(
            [request.messages[i] for i in slide.live],
            system=request.system,
            tools=request.tools,
            summary=summary or None,
            format=request.format,
        )

    @staticmethod
    def _window(
        request: _Request,
        slide: _Slide,
        result: PackResult[Any],
        summary: str | None,
        error: Exception | None = None,
    ) -> Window:
        gone = tuple(
            lost._replace(index=slide.live[lost.index]) if lost.source == "message" else lost for lost in result.dropped
        )
        covers = slide.covers if summary else 0
        up_to = _mark(request.messages[covers - 1]) if covers else None
        return Window(result, summary or None, covers, len(slide.folded), error, gone, up_to)


class _Request:
    """What one build reads, as it was when the build began."""

    format: Literal["openai", "responses", "anthropic"] | None = None

    def __init__(self, state: WindowState, tools: Sequence[Any] | None, system: Any) -> None:
        if not hasattr(state, "messages"):
            raise ArgumentError(
                f"a state with messages, a summary and metadata is wanted, as SessionState, not {type(state).__name__}"
            )
        self.messages: list[Mapping[str, Any]] = list(state.messages)
        self.summary = state.summary if state.summary and state.summary.strip() else None
        self.covers = state.metadata.get(COVERS, 0) if self.summary else 0
        self.up_to = state.metadata.get(COVERS_UP_TO) if self.summary else None
        self.tools = tools
        self.system = system


def _covered(request: _Request, groups: Sequence[Mapping[str, Any]]) -> int:
    """How many messages the summary stands for, moved back to the start of the group it falls into.

    0 where the last of them is not where it was: the history was cut back or changed, and what took its place was never
    summarised.
    """
    covers = request.covers if isinstance(request.covers, int) and not isinstance(request.covers, bool) else 0
    covers = min(max(covers, 0), len(request.messages))
    if covers and request.up_to is not None and request.up_to != _mark(request.messages[covers - 1]):
        return 0
    for group in groups:
        if group["indices"][0] < covers <= group["indices"][-1]:
            return int(group["indices"][0])
    return covers


def _mark(message: Any) -> str:
    return f"{_chat_fingerprint(message):032x}"


def _speaker(message: Any) -> str:
    """Who says it: of a dict, or of a provider's own object."""
    for name in ("role", "type"):
        found = message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)
        if found:
            return str(found)
    return "item"


def _stays(groups: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """What never slides out: the system prompt, a provider's own compaction, the current user turn, the last group."""
    names = ("is_prompt", "is_compaction", "is_current_turn")
    kept = [group for group in groups if any(group[name] for name in names)]
    return frozenset(i for group in (*kept, *groups[-1:]) for i in group["indices"])
