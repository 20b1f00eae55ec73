"""Which context strategy is best for an agent? Strategies over recorded conversations, turn by turn, without a model."""

from __future__ import annotations

from holdall.errors import StrategyError
from holdall.replay.load import load_traces
from holdall.replay.prices import PRICES, Price, break_even_turns, price_of
from holdall.replay.registry import STRATEGIES
from holdall.replay.replay import Replay, replay
from holdall.replay.request import Request, Strategy, Window
from holdall.replay.rows import Figures, Row
from holdall.replay.trace import Question, Trace

__all__ = [
    "PRICES",
    "STRATEGIES",
    "Figures",
    "Price",
    "Question",
    "Replay",
    "Request",
    "Row",
    "Strategy",
    "StrategyError",
    "Trace",
    "Window",
    "break_even_turns",
    "load_traces",
    "price_of",
    "replay",
]
