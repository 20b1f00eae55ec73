"""The embedded memory keeps every claim, on a file and without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdall.semantic import EmbeddedMemory
from holdall.testing import SemanticConformance


class TestEmbeddedMemory(SemanticConformance):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "memory.db"

    async def make_memory(self, **options: Any) -> EmbeddedMemory:
        return EmbeddedMemory(self.path, **options)
