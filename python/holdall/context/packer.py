"""The packer: the native one, and what awaits."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, TypeVar

from holdall._native import ContextItem, Packer, PackResult
from holdall.errors import SummarizerError

_M = TypeVar("_M")

Sequence.register(PackResult)


class ContextWindowPacker(Packer):
    """Packs items, or a conversation, into a fixed number of tokens.

    Thread-safe: it keeps nothing but caches. The arguments are those of `Packer` in `_native.pyi`.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(max_tokens={self.max_tokens}, output_reserve={self.output_reserve}, "
            f"strategy={self.strategy!r}, budget={self.budget})"
        )

    async def apack(self, items: Iterable[ContextItem]) -> PackResult[ContextItem]:
        """Pack as `pack` does; an async summarizer is awaited.

        Raises:
            RequiredOverflowError: The required items do not fit.
            SummarizerError: The summarizer did not give text.
        """
        pending = self._begin(items)
        return pending.finish(await self._summary_of(pending.text))

    async def apack_messages(self, messages: Sequence[_M], system: Any = None, **options: Any) -> PackResult[_M]:
        """Pack as `pack_messages` does, in a thread, so that the loop runs on; an async summarizer is awaited.

        Args:
            messages: As in `pack_messages`.
            system: As in `pack_messages`.
            options: The other arguments of `pack_messages`.

        Raises:
            RequiredOverflowError: What must be in does not fit.
            SummarizerError: The summarizer did not give text.
        """
        import asyncio  # half of the import time of the whole package

        pending = await asyncio.to_thread(lambda: self._begin_messages(messages, system, **options))
        return pending.finish(await self._summary_of(pending.text))

    async def _summary_of(self, text: str | None) -> str | None:
        if text is None or self.summarizer is None:
            return None
        answer = self.summarizer(text)
        answer = await answer if isinstance(answer, Awaitable) else answer
        if answer is None:
            raise SummarizerError("the summarizer must return a str, not NoneType")
        return answer
