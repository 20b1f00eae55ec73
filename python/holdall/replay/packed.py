"""The packer's strategies: greedy, optimal, stable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from holdall._native import PackResult
from holdall.context.packer import ContextWindowPacker
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
        return Window(
            result.messages,  # type: ignore[arg-type]
            result.system,
            result.tools,
            _Kept(result),
            lasting=result.n_lasting if self.strategy == "stable" else None,
        )


class _Kept(Mapping[int, str]):
    """How each message is shown, read from the result when asked: a choice is timed without it."""

    def __init__(self, result: PackResult[object]) -> None:
        self._result = result

    @cached_property
    def _shown(self) -> dict[int, str]:
        return {one.index: one.rendition for one in self._result.kept if one.source == "message"}

    def __getitem__(self, index: int) -> str:
        return self._shown[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._shown)

    def __len__(self) -> int:
        return len(self._shown)
