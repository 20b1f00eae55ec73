"""Migrations as plain SQL: `<backend>/NNNN_name.sql`, applied in order, never edited once released."""

from __future__ import annotations

import re
from importlib import resources
from typing import NamedTuple

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


class Migration(NamedTuple):
    """One numbered file."""

    number: int
    name: str
    sql: str


def migrations(backend: str) -> list[Migration]:
    """Return the migrations of a backend in order.

    Raises:
        ValueError: A file is misnamed, or a number is missing or given twice: the package is damaged.
    """
    found = []
    for file in sorted((resources.files(__name__) / backend).iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        match = _NAME.fullmatch(file.name)
        if match is None:
            raise ValueError(f"{backend}/{file.name} is not named NNNN_name.sql")
        found.append(Migration(int(match[1]), file.name, file.read_text("utf-8")))
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {backend} are not numbered 1 to {len(found)}")
    return found
