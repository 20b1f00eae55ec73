"""The packer's strategies: greedy, optimal, stable."""

from __future__ import annotations

from holdall._native import PackResult
from holdall.context.packer import ContextWindowPacker
from holdall.errors import UnknownNameError
from holdall.replay.request import Request, Window


class Packed:
    """`ContextWindowPacker.pack_messages` with one of its strategies, as it comes."""

    def __init__(self, strategy: str) -> None:
        self.strategy = strategy
        self._packers: dict[int, ContextWindowPacker] = {}

    def __call__(self, request: Request) -> Window:
        """Pack the conversation."""
        packer = self._packers.get(request.budget)
        if packer is None:
            packer = self._packers[request.budget] = ContextWindowPacker(
                request.budget, tokenizer=request.tokenizer, output_reserve=0, strategy=self.strategy
            )
        result: PackResult[object] = packer.pack_messages(
            request.messages,
            request.system,
            tools=request.tools,
            previous=request.memory.get("memo") if self.strategy == "stable" else None,
            format=request.format,  # type: ignore[arg-type]
        )
        if self.strategy == "stable":
            request.memory["memo"] = result.memo
        kept = {one.index: one.rendition for one in result.kept if one.source == "message"}
        return Window(result.messages, result.system, result.tools, kept)  # type: ignore[arg-type]


def is_known(strategy: str) -> bool:
    """Whether the packer has such a strategy."""
    try:
        ContextWindowPacker(1, output_reserve=0, strategy=strategy)
    except UnknownNameError:
        return False
    return True
