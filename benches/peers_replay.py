"""What peers send, as strategies for `holdall replay`: `--strategies benches.peers_replay:TrimMessages`.

Each is set up as its documentation shows, and given the budget that is left beside framing, system prompt and tools, and the
exact tokens of each message: what it then gets wrong or slow is its own. They read OpenAI chat messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from convopack import Packer, Recency
from convopack.providers.openai import from_openai
from langchain.agents.middleware import SummarizationMiddleware as Middleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import convert_to_messages, trim_messages
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer as Buffer

from holdall import extractive_summary
from holdall.errors import RequiredOverflowError
from holdall.replay import Request, Window
from holdall.replay.trace import Message


def _langchain(request: Request) -> list[Any]:
    """LangChain's messages, made once; their ids are our indices."""
    known: list[tuple[Message, Any]] = request.memory.get("made", [])
    if known and (len(known) > len(request.messages) or known[-1][0] is not request.messages[len(known) - 1]):
        known = known[:-1]  # a question stood there
    made = list(known)
    for index, message in enumerate(request.messages[len(made) :], len(made)):
        (one,) = convert_to_messages([{**message, "content": message.get("content") or ""}])
        one.id = str(index)
        made.append((message, one))
    request.memory["made"] = made
    return [one for _, one in made]


def _counter(request: Request) -> Any:
    """Tokens of LangChain's messages, from what is known of ours."""

    def count(messages: Any) -> int:
        if not isinstance(messages, Iterable):
            messages = [messages]
        total = 0
        for one in messages:
            known = str(one.id).isdigit() and int(one.id) < len(request.tokens)
            total += (
                request.tokens[int(one.id)] if known else request.count({"role": "user", "content": str(one.content)})
            )
        return total

    return count


class TrimMessages:
    """langchain_core's `trim_messages`, with the arguments its guide recommends for chat history."""

    start_on: Any = "human"

    def __call__(self, request: Request) -> Window:
        kept = trim_messages(
            _langchain(request),
            max_tokens=request.budget - request.base,
            token_counter=_counter(request),
            strategy="last",
            start_on=self.start_on,
            include_system=True,
        )
        return request.window([int(str(one.id)) for one in kept])


class TrimMessagesAnywhere(TrimMessages):
    """The same, allowed to begin with any message: agents that work for long after one user message need that."""

    start_on = None


class SummarizationMiddleware:
    """langchain's `SummarizationMiddleware`: at the budget, all but the newest half becomes a summary."""

    def __init__(self) -> None:
        self._calls: list[tuple[int, int]] = []
        self._request: Request | None = None

    def _summarize(self, messages: Sequence[Any]) -> str:
        request = self._request
        assert request is not None
        text = "\n\n".join(str(one.content) for one in messages)
        summary = extractive_summary(text, request.budget // 10, tokenizer=request.tokenizer) or "Nothing to tell."
        self._calls.append((request.tokenizer.count(text), request.tokenizer.count(summary)))
        return summary

    def __call__(self, request: Request) -> Window:
        self._request = request
        self._calls.clear()
        # The prompt is no part of the state; its tokens are taken off what the state may have.
        prompts = sorted(n for n in request.required if request.shapes[n].role == "system")
        room = max(request.budget - request.base - sum(request.tokens[n] for n in prompts), 2)
        made = _langchain(request)
        state: list[Any] = [*request.memory.get("state", []), *made[request.memory.get("seen", len(prompts)) :]]
        middleware = Middleware(
            FakeListChatModel(responses=["unused"]),
            trigger=("tokens", room),
            keep=("tokens", room // 2),
            token_counter=_counter(request),
            trim_tokens_to_summarize=None,
            summarizer=self._summarize,
        )
        changed = middleware.before_model({"messages": state}, None)  # type: ignore[typeddict-item,arg-type]
        if changed is not None:
            state = changed["messages"][1:]
        request.memory["state"], request.memory["seen"] = state, len(made)
        messages = [request.messages[n] for n in prompts]
        for one in state:
            own = str(one.id).isdigit()
            messages.append(request.messages[int(one.id)] if own else {"role": "user", "content": str(one.content)})
        return Window(messages, request.system, request.tools, summarizer=tuple(self._calls))


class ChatMemoryBuffer:
    """llama-index's `ChatMemoryBuffer`; the system prompt is put before what it gives back."""

    def __call__(self, request: Request) -> Window:
        prompts = sorted(n for n in request.required if request.shapes[n].role == "system")
        held = sum(request.tokens[n] for n in prompts)
        history = [
            ChatMessage(
                role=message["role"],
                content=str(message.get("content") or ""),
                additional_kwargs={"index": n},
            )
            for n, message in enumerate(request.messages)
            if n not in prompts
        ]
        tokenizer = request.tokenizer
        buffer = Buffer.from_defaults(
            chat_history=history,
            token_limit=max(request.budget - request.base - held, 1),
            tokenizer_fn=lambda text: range(tokenizer.count(text)),  # type: ignore[arg-type,return-value]
        )
        try:
            kept = buffer.get()
        except ValueError as error:
            raise RequiredOverflowError(str(error)) from error
        return request.window([*prompts, *(one.additional_kwargs["index"] for one in kept)])


class _Counts:
    """Known tokens, as convopack's `Tokenizer`."""

    name = "known"

    def __init__(self, request: Request) -> None:
        self._request = request
        self.places: dict[int, int] = {}

    def count(self, text: str) -> int:
        return self._request.tokenizer.count(text)

    def count_message(self, message: Any) -> int:
        return self._request.tokens[self.places[id(message)]]

    def count_messages(self, messages: Any) -> int:
        return sum(self.count_message(message) for message in messages)


class Convopack:
    """convopack's `Packer` with `Recency`, its default."""

    def __call__(self, request: Request) -> Window:
        counts = _Counts(request)
        messages = from_openai([dict(message) for message in request.messages])
        counts.places = {id(message): n for n, message in enumerate(messages)}
        packer = Packer(budget=request.budget - request.base, tokenizer=counts, strategy=Recency())
        return request.window([counts.places[id(message)] for message in packer.pack(messages).kept])


PEERS = {
    "trim_messages": "benches.peers_replay:TrimMessages",
    "trim_messages, begun anywhere": "benches.peers_replay:TrimMessagesAnywhere",
    "SummarizationMiddleware": "benches.peers_replay:SummarizationMiddleware",
    "llama-index ChatMemoryBuffer": "benches.peers_replay:ChatMemoryBuffer",
    "convopack": "benches.peers_replay:Convopack",
}
