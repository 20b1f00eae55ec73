"""Replay one conversation with one strategy, turn by turn, at several budgets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdall._native import Tokenizer, _chat_fingerprint
from holdall.errors import HoldallError, RequiredOverflowError, StrategyError
from holdall.replay.cache import PromptCache, Sent
from holdall.replay.check import check
from holdall.replay.ledger import Block, Ledger
from holdall.replay.prices import Price
from holdall.replay.request import Make, Request, Strategy, Window
from holdall.replay.rows import Row
from holdall.replay.shape import groups, text_of
from holdall.replay.trace import Question, Trace


@dataclass
class _Run:
    """One budget of one conversation."""

    row: Row
    cache: PromptCache
    memory: dict[str, Any] = field(default_factory=dict)
    last: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class Task:
    """One conversation with one strategy."""

    trace: Trace
    strategy: str
    make: Make
    budgets: Sequence[int]
    tokenizer: Tokenizer
    price: Price
    turns: bool = True
    questions: bool = True


def replay_one(task: Task, *, tick: Callable[[], None] | None = None) -> list[Row]:
    """Replay a conversation.

    Returns:
        One row for each budget.

    Raises:
        StrategyError: The strategy failed; the message says where.
    """
    return _Replay(task, tick or (lambda: None)).run()


class _Replay:
    def __init__(self, task: Task, tick: Callable[[], None]) -> None:
        self.task = task
        self.tick = tick
        self.trace = trace = task.trace
        self.ledger = Ledger(task.tokenizer, trace.format)
        self.strategy: Strategy = task.make()
        self.source = [self.ledger.message(message) for message in trace.messages]
        self.tokens = [block.tokens for block in self.source]
        self.shapes = [block.shape for block in self.source]
        self.groups = groups(self.shapes)
        self.system = self.ledger.system(trace.system)
        tools = self.ledger.tools(trace.tools)
        self.base = self.ledger.framing + sum(block.tokens for block in (self.system, tools) if block)
        self.runs = [
            _Run(Row(trace.id, trace.source, task.strategy, budget), PromptCache(task.price)) for budget in task.budgets
        ]

    def run(self) -> list[Row]:
        before = self._fingerprints()
        self._replay()
        if self._fingerprints() != before:
            raise StrategyError(
                f"strategy {self.task.strategy!r} changed the messages of {self.trace.id!r}, which others are still to be given:"
                " it must copy what it changes"
            )
        for run in self.runs:
            run.row.charge(run.cache, self.task.price)
        return [run.row for run in self.runs]

    def _fingerprints(self) -> list[int]:
        return [_chat_fingerprint(message) for message in self.trace.messages]

    def _replay(self) -> None:
        if self.task.turns:
            for size in self.trace.turns():
                turn = self._request(self.trace.messages[:size])
                for run in self.runs:
                    self._turn(run, turn.at(run.row.budget, run.memory))
                self.tick()
        if self.task.questions:
            for question in self.trace.questions:
                asked = self._question(question)
                for run in self.runs:
                    self._ask(run, asked.at(run.row.budget, dict(run.memory)), question)
                self.tick()

    def _request(self, messages: Sequence[Any], more: Block | None = None) -> Request:
        size = len(messages)
        trace = self.trace
        return Request(
            messages,
            trace.system,
            trace.tools,
            0,
            trace.format,
            self.task.tokenizer,
            self.task.price,
            {},
            [*self.tokens, more.tokens] if more else self.tokens[:size],
            [*self.shapes, more.shape] if more else self.shapes[:size],
            self.base,
            [*self.groups, [size - 1]] if more else self.groups,
            lambda message: self.ledger.message(message).tokens,
        )

    def _question(self, question: Question) -> Request:
        message = {"role": "user", "content": question.text}
        return self._request([*self.trace.messages, message], self.ledger.message(message))

    def _window(self, run: _Run, request: Request) -> Window | None:
        size = len(request.messages)
        started = time.process_time_ns()
        try:
            given = self.strategy(request)
        except RequiredOverflowError:
            run.row.latencies_us.append((time.process_time_ns() - started) / 1000)
            return None
        except Exception as error:
            raise StrategyError(f"{self._place(request)}: {type(error).__name__}: {error}") from error
        run.row.latencies_us.append((time.process_time_ns() - started) / 1000)
        if len(request.messages) != size:
            raise StrategyError(f"{self._place(request)}: changed the list of messages, which belongs to the request")
        if isinstance(given, Window):
            return given
        if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
            return Window(list(given), request.system, request.tools)
        raise StrategyError(f"{self._place(request)}: gave {type(given).__name__}, not a Window or a list of messages")

    def _place(self, request: Request) -> str:
        where = f"strategy {self.task.strategy!r} at message {len(request.tokens)} of {self.trace.id!r}"
        return f"{where}, budget {request.budget}"

    def _sent(self, request: Request, window: Window) -> tuple[list[Block], list[Block]]:
        """All that is sent, tools and system prompt first, and the messages alone."""
        try:
            messages = [self.ledger.message(message) for message in window.messages]
            head = [self.ledger.tools(window.tools), self.ledger.system(window.system)]
        except (AttributeError, TypeError, HoldallError) as error:
            raise StrategyError(f"{self._place(request)}: gave what is no request: {error}") from error
        if window.lasting is not None and window.lasting not in range(len(messages) + 1):
            raise StrategyError(
                f"{self._place(request)}: `lasting` must be a number of messages from 0 to the {len(messages)} sent, "
                f"not {window.lasting!r}"
            )
        return [block for block in head if block] + messages, messages

    def _turn(self, run: _Run, request: Request) -> None:
        row = run.row
        window = self._window(run, request)
        row.requests += 1
        if window is None:
            row.refused += 1
            return
        sent, messages = self._sent(request, window)
        tokens = self.ledger.framing + sum(block.tokens for block in sent)
        self._judge(run, request, messages, window, tokens)
        row.tokens += tokens
        if request.total > request.budget:
            row.tight += 1
            row.fill_sum += tokens / request.budget
        try:
            row.summarize(window.summarizer, self.task.price)
        except (TypeError, ValueError) as error:
            raise StrategyError(
                f"{self._place(request)}: `summarizer` must be pairs of input and output tokens: {error}"
            ) from error
        shared, shared_tokens = self._shared(run.last, sent)
        if run.last:
            previous = self.ledger.framing + sum(block.tokens for block in run.last)
            row.previous += previous
            row.shared += min(shared_tokens, previous)
            row.breaks += shared < len(run.last)
        row.timeline.append((len(request.messages), tokens, shared_tokens))
        ends, total = [], self.ledger.framing
        for block in sent:
            total += block.tokens
            ends.append(total)
        head = len(sent) - len(messages)
        while head < len(sent) and sent[head].shape.role == "system":
            head += 1
        lasting = None if window.lasting is None else len(sent) - len(messages) + window.lasting
        run.cache.send(Sent([block.number for block in sent], ends, head, shared, shared_tokens, lasting))
        run.last = sent

    def _ask(self, run: _Run, request: Request, question: Question) -> None:
        window = self._window(run, request)
        row = run.row
        row.asked += 1
        if window is None:
            row.refused_questions += 1
            row.recalls.append(0.0)
            row.recalls_any.append(0.0)
            return
        sent, messages = self._sent(request, window)
        tokens = self.ledger.framing + sum(block.tokens for block in sent)
        self._judge(run, request, messages, window, tokens)
        row.question_tokens += tokens
        there = {block.number for block in messages}
        whole = sum(self.source[n].number in there or self._is_quoted(n, window) for n in question.evidence)
        shown = sum(
            self.source[n].number in there or (window.kept is not None and n in window.kept) for n in question.evidence
        )
        row.recalls.append(whole / len(question.evidence))
        row.recalls_any.append(shown / len(question.evidence))

    def _is_quoted(self, index: int, window: Window) -> bool:
        """Whether a message that is said to be recalled stands in another one, word for word."""
        if window.kept is None or window.kept.get(index) != "recalled":
            return False
        text = text_of(self.trace.messages[index])
        return any(text in text_of(message) for message in window.messages)

    def _judge(self, run: _Run, request: Request, messages: Sequence[Block], window: Window, tokens: int) -> None:
        source = self.source[: len(request.messages)]
        if len(source) < len(request.messages):
            source = [*source, self.ledger.message(request.messages[-1])]
        system = self.system is None or self._is_same_system(window.system)
        faults = check(request, source, messages, tokens, system=system)
        row = run.row
        row.overflow += faults.overflow
        row.orphans += bool(faults.orphans)
        row.missing += bool(faults.missing)
        row.invalid += bool(faults.overflow or faults.orphans or faults.missing)

    def _is_same_system(self, system: Any) -> bool:
        """Whether a system prompt is the recorded one, or begins with it: a summary may be added at its end."""
        if system == self.trace.system:
            return True
        one, other = _system_text(self.trace.system), _system_text(system)
        return bool(other) and other.startswith(one)

    def _shared(self, last: Sequence[Block], sent: Sequence[Block]) -> tuple[int, int]:
        """Leading blocks that two requests have in common, and tokens of their common beginning."""
        n, tokens = 0, self.ledger.framing if last else 0
        for before, now in zip(last, sent, strict=False):
            if before is not now:
                return n, tokens + self.ledger.common(before, now)
            n += 1
            tokens += now.tokens
        return n, tokens


def _system_text(system: Any) -> str:
    """The text of a system prompt: a string, or blocks with texts."""
    if isinstance(system, str):
        return system
    blocks = system if isinstance(system, (list, tuple)) else []
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
