"""Run strategies over recorded conversations and add up what they come to."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Final

from holdall._native import Tokenizer
from holdall.errors import ArgumentError, ClosedError, StrategyError, UnknownNameError
from holdall.replay.prices import Price, price_of
from holdall.replay.registry import STRATEGIES, make_of, maker, names_of
from holdall.replay.request import Strategy
from holdall.replay.rows import Figures, Row, figures
from holdall.replay.run import Task, replay_one
from holdall.replay.trace import Trace

# How often several processes are asked how far they are.
POLL_S: Final = 0.2
STOP: Final = -1

Progress = Callable[[int, int, str], None]
"""Called with units done, units in all, and the name of what is being done."""


@dataclass(frozen=True)
class Replay:
    """The outcome.

    Attributes:
        traces: The conversations.
        rows: One for each conversation, strategy and budget.
        figures: One for each set, strategy and budget.
        strategies: Names, in order.
        budgets: Tokens, in order.
        model: The model whose prices were used.
        price: These.
        encoding: What counted.
    """

    traces: Sequence[Trace]
    rows: Sequence[Row]
    figures: Sequence[Figures]
    strategies: Sequence[str]
    budgets: Sequence[int]
    model: str
    price: Price
    encoding: str


def replay(
    traces: Iterable[Trace],
    *,
    budgets: Sequence[int],
    strategies: str | Iterable[str | Strategy] = "all",
    model: str = "claude-sonnet-5-5",
    prices: str | Path | None = None,
    tokenizer: Tokenizer | None = None,
    turns: bool = True,
    questions: bool = True,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Replay:
    """Run each strategy over each conversation, turn by turn, at each budget.

    Everything but the latencies is the same for the same input.

    Args:
        traces: What `load_traces` reads, or made by hand.
        budgets: Tokens that a whole request may have.
        strategies: "all", names by commas, or a list of names and of the caller's own; `module:function` names one of these.
        model: Whose prices count, and whose tokenizer where it is public (else o200k_base).
        prices: A file of prices, as `price_of` reads it.
        tokenizer: Another counter.
        turns: Whether the conversations are replayed turn by turn.
        questions: Whether their questions are asked.
        jobs: Processes that work side by side. More than one starts new interpreters, so a script then needs its
            `if __name__ == "__main__":`.
        progress: Called as the work goes on.

    Raises:
        ArgumentError: An argument is outside its domain.
        StrategyError: A strategy failed, or a process that ran it ended.
    """
    traces = list(traces)
    sizes = list(dict.fromkeys(budgets))
    if not sizes or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in sizes):
        raise ArgumentError(f"budgets must be whole numbers of tokens of at least 1, not {list(budgets)}")
    if jobs < 1:
        raise ArgumentError(f"jobs must be at least 1, not {jobs}")
    chosen = _chosen(strategies)
    price = price_of(model, prices)
    counter = tokenizer or _tokenizer(model)
    tasks = [
        _Named(trace, name, own, tuple(sizes), counter, price, turns, questions)
        for trace in traces
        for name, own in chosen.items()
    ]
    done = _side_by_side(tasks, jobs, progress) if jobs > 1 and len(tasks) > 1 else _in_turn(tasks, progress)
    rows = [row for number in range(len(tasks)) for row in done[number]]
    return Replay(traces, rows, figures(rows), list(chosen), sizes, model, price, counter.name)


def _chosen(strategies: str | Iterable[str | Strategy]) -> dict[str, Strategy | None]:
    """Strategies by name, with the caller's own where one was given and not named."""
    if isinstance(strategies, str):
        return dict.fromkeys(names_of(strategies))
    found: dict[str, Strategy | None] = {}
    for one in strategies:
        if isinstance(one, str):
            found.update(dict.fromkeys(name for name in names_of(one) if name not in found))
        elif callable(one):
            name = getattr(one, "__name__", type(one).__name__)
            if name in found or name in STRATEGIES:
                raise ArgumentError(f"there are two strategies of the name {name!r}")
            found[name] = one
        else:
            raise ArgumentError(f"a strategy is a name or a function, not {type(one).__name__}")
    return found or dict.fromkeys(names_of(""))


def _tokenizer(model: str) -> Tokenizer:
    try:
        return Tokenizer.for_model(model)
    except UnknownNameError:
        return Tokenizer("o200k_base")


@dataclass(frozen=True)
class _Named:
    """A task as it travels to another process: a strategy by its name, or the caller's own."""

    trace: Trace
    strategy: str
    own: Strategy | None
    budgets: Sequence[int]
    tokenizer: Tokenizer
    price: Price
    turns: bool
    questions: bool

    def units(self) -> int:
        """How much work it is."""
        turns = len(self.trace.turns()) if self.turns else 0
        return turns + (len(self.trace.questions) if self.questions else 0)

    def run(self, tick: Callable[[], None] | None = None) -> list[Row]:
        task = Task(
            self.trace,
            self.strategy,
            maker(self.strategy) if self.own is None else make_of(self.own),
            self.budgets,
            self.tokenizer,
            self.price,
            self.turns,
            self.questions,
        )
        return replay_one(task, tick=tick)


def _in_turn(tasks: Sequence[_Named], progress: Progress | None) -> dict[int, list[Row]]:
    total = sum(task.units() for task in tasks)
    count = 0
    done: dict[int, list[Row]] = {}
    for number, task in enumerate(tasks):
        label = f"{task.trace.id}, {task.strategy}"

        def tick(label: str = label) -> None:
            nonlocal count
            count += 1
            if progress is not None:
                progress(count, total, label)

        done[number] = task.run(tick)
    return done


def _side_by_side(tasks: Sequence[_Named], jobs: int, progress: Progress | None) -> dict[int, list[Row]]:
    units = [task.units() for task in tasks]
    # The longest first, so that no process is left alone with a long one at the end.
    weight = [units[n] * len(task.trace.messages) for n, task in enumerate(tasks)]
    order = sorted(range(len(tasks)), key=lambda n: (-weight[n], n))
    _check_travels(tasks)
    done: dict[int, list[Row]] = {}
    context = get_context("spawn")  # started anew, not forked: the native part may have threads
    counter = context.Value("q", 0)
    told = 0
    with ProcessPoolExecutor(
        min(jobs, len(tasks)), mp_context=context, initializer=_count_into, initargs=(counter,)
    ) as pool:
        try:
            with _no_interrupt():
                futures = {pool.submit(_run_counted, tasks[n]): n for n in order}
            pending = set(futures)
            while pending:
                finished, pending = wait(pending, timeout=POLL_S, return_when=FIRST_COMPLETED)
                for future in finished:
                    done[futures[future]] = future.result()
                if progress is not None and counter.value > told:
                    told = counter.value
                    progress(told, sum(units), f"{len(done)} of {len(tasks)} runs done")
        except BrokenProcessPool as error:
            raise StrategyError(
                "a process of the replay ended without a word: it was killed, ran out of memory, or a strategy ended it; "
                "try fewer jobs"
            ) from error
        except BaseException:
            with counter.get_lock():
                counter.value = STOP
            # The counter must outlive those that still start.
            pool.shutdown(cancel_futures=True)
            raise
    return done


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back; a process that is started meanwhile never hears of it, not even while it imports what it runs."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check_travels(tasks: Sequence[_Named]) -> None:
    """A strategy or a tokenizer that cannot be sent to another process is told at once, and by its name."""
    own = {f"the strategy {task.strategy!r}": task.own for task in tasks if task.own is not None}
    for name, one in [*own.items(), *[("the tokenizer", task.tokenizer) for task in tasks[:1]]]:
        try:
            pickle.dumps(one)
        except Exception as error:
            raise ArgumentError(
                f"{name} cannot be sent to another process ({error}): use jobs=1, or what a module has under its name"
            ) from error


_turns_done: Any = None


def _count_into(counter: Any) -> None:
    """Keep the counter that all processes share."""
    global _turns_done  # noqa: PLW0603 - a process of a pool has no other place
    _turns_done = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that started the pool says when to stop
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """A process of a pool whose owner was killed would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_counted(task: _Named) -> list[Row]:
    def tick() -> None:
        with _turns_done.get_lock():
            if _turns_done.value == STOP:
                raise ClosedError("the replay was stopped")
            _turns_done.value += 1

    return task.run(tick)
