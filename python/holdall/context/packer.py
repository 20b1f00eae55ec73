"""The packer: the native one, and what awaits."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

from holdall._native import ContextItem, Packer, PackResult

Sequence.register(PackResult)


class ContextWindowPacker(Packer):
    """Packs items, or a conversation, into a fixed number of tokens.

    Thread-safe: it keeps nothing but caches. The arguments are those of `Packer` in `_native.pyi`.
    """

    __slots__ = ()

    async def apack(self, items: Iterable[ContextItem]) -> PackResult[ContextItem]:
        """Pack as `pack` does; an async summarizer is awaited.

        Raises:
            RequiredOverflowError: The required items do not fit.
            SummarizerError: The summarizer did not give text.
        """
        pending = self._begin(items)
        return pending.finish(await self._summary_of(pending.text))

    async def _summary_of(self, text: str | None) -> str | None:
        if text is None or self.summarizer is None:
            return None
        answer = self.summarizer(text)
        return await answer if inspect.isawaitable(answer) else answer
