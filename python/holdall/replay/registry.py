"""Strategies by name, and strategies of the caller's."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from holdall.errors import ArgumentError, UnknownNameError
from holdall.replay.baselines import RollingSummary, full_history, sliding_window
from holdall.replay.hybrid import HybridRelevance
from holdall.replay.masking import ObservationMasking
from holdall.replay.packed import Packed
from holdall.replay.request import Make, Strategy

STRATEGIES: Final[Mapping[str, Make]] = {
    "full": lambda: full_history,
    "sliding": lambda: sliding_window,
    "summary": RollingSummary,
    "masking": ObservationMasking,
    "hybrid": HybridRelevance,
    "greedy": partial(Packed, "greedy"),
    "optimal": partial(Packed, "optimal"),
    "stable": partial(Packed, "stable"),
}

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "full": "everything, whether it fits or not",
    "sliding": "the newest messages that fit",
    "summary": "the newest messages, and a rolling summary of the rest",
    "masking": "old tool results replaced by a line, then the oldest messages left out",
    "hybrid": "half newest messages, half older ones that match the current turn",
    "greedy": "the packer, by value per token",
    "optimal": "the packer, with the choice of the largest value",
    "stable": "the packer, repeating what was sent before so that prompt caches hit",
}


def names_of(strategies: str | Iterable[str]) -> list[str]:
    """Read names of strategies: "all", names by commas, or a list; `module:function` names one of the caller's.

    Raises:
        UnknownNameError: There is no such strategy.
        ArgumentError: No strategy is named, or one cannot be imported.
    """
    asked = strategies.split(",") if isinstance(strategies, str) else list(strategies)
    names: list[str] = []
    for name in (one.strip() for one in asked):
        names += list(STRATEGIES) if name == "all" else [name] if name else []
    names = list(dict.fromkeys(names))
    if not names:
        raise ArgumentError(f"no strategy is named; known: {', '.join(STRATEGIES)}, all, or module:function")
    for name in names:
        maker(name)
    return names


def maker(name: str) -> Make:
    """What makes the strategy of a name.

    `module:function` is a `Strategy`, or a class (or other callable without arguments) that makes one for each conversation.
    """
    if name in STRATEGIES:
        return STRATEGIES[name]
    if ":" not in name:
        raise UnknownNameError(
            f"no strategy {name!r}; known: {', '.join(STRATEGIES)}, or module:function",
            what="strategy",
            name=name,
            known=list(STRATEGIES),
        )
    module, _, path = name.partition(":")
    if not re.fullmatch(r"[\w.]+:[\w.]+", name):
        raise ArgumentError(f"{name!r} is no module:function")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f"cannot import the strategy {name!r}: {error}") from None
    except Exception as error:
        raise ArgumentError(f"importing the strategy {name!r} failed: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ArgumentError(f"the strategy {name!r} is no function")
    return make_of(found)


def make_of(found: Any) -> Make:
    """What makes a strategy for each conversation: a class makes one, a function is one."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        parameters = ()  # type: ignore[assignment]
    needed = [
        one for one in parameters if one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    ]
    if inspect.isclass(found) or not (needed or parameters):
        made: Make = found
        return made
    strategy: Strategy = found
    return lambda: strategy
