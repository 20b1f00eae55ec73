"""Never run, only type-checked: what a user writes must type-check under mypy strict."""

from __future__ import annotations

import holdall

version: str = holdall.__version__
