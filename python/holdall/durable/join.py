"""What a joined thread brings into its parent, by name."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from holdall._native import extractive_summary, msgpack_encode
from holdall.errors import ArgumentError, MergeConflictError, UnknownNameError
from holdall.state import SessionState

Summarizer = Callable[[list[str]], str | Awaitable[str]]
JoinStrategy = Literal["append", "summary", "results"] | Callable[[SessionState, SessionState], object]
_Bring = Callable[[SessionState, SessionState], Awaitable[None]]

NAMES: Final = ("append", "summary", "results")
# As much of a summary as a model reads in passing: half a page.
_SUMMARY_TOKENS: Final = 400


def joiner(strategy: JoinStrategy, summarizer: Summarizer | None) -> _Bring:
    """Return what changes a parent's state by a thread's."""
    if summarizer is not None and strategy != "summary":
        raise ArgumentError("a summarizer goes with strategy='summary'")
    if callable(strategy):
        custom = strategy

        async def bring(parent: SessionState, child: SessionState) -> None:
            answer = custom(parent, child)
            if inspect.isawaitable(answer):
                await answer

        return bring
    if strategy == "append":
        return _append
    if strategy == "results":
        return _results
    if strategy == "summary":

        async def summarise(parent: SessionState, child: SessionState) -> None:
            parent.messages.append(await _summary(child, summarizer))

        return summarise
    raise UnknownNameError(
        f"unknown join strategy {strategy!r}; known: {', '.join(NAMES)}, or a function of both states",
        what="strategy",
        name=str(strategy),
        known=list(NAMES),
    )


async def _append(parent: SessionState, child: SessionState) -> None:
    parent.messages.extend(child.messages)
    await _results(parent, child)


async def _results(parent: SessionState, child: SessionState) -> None:
    for step, result in child.step_results.items():
        if step not in parent.step_results:
            parent.step_results[step] = result
        elif msgpack_encode(parent.step_results[step]) != msgpack_encode(result):
            raise MergeConflictError(
                f"both {parent.session_id!r} and its thread {child.session_id!r} recorded step {step!r}, with different "
                "results; join with a function that says which one stands",
                field=f"step_results[{step!r}]",
                base=None,
                ours=parent.step_results[step],
                theirs=result,
            )


async def _summary(child: SessionState, summarizer: Summarizer | None) -> dict[str, Any]:
    texts = [text for message in child.messages if (text := _text_of(message.get("content")))]
    if summarizer is None:
        answer: Any = extractive_summary(texts, _SUMMARY_TOKENS) or ""
    else:
        answer = summarizer(texts)
        if inspect.isawaitable(answer):
            answer = await answer
    if not isinstance(answer, str):
        raise ArgumentError(f"the summarizer gave {type(answer).__name__}, not text")
    title = f"[summary of {len(child.messages)} messages of thread {child.session_id}]"
    return {"role": "assistant", "content": f"{title}\n{answer}".rstrip()}


def _text_of(content: object) -> str:
    """Return the text of a message's content: of a str, or of parts that have text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        return ""
    parts = (part.get("text") for part in content if isinstance(part, dict))
    return "\n".join(part for part in parts if isinstance(part, str))
