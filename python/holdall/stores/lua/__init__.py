"""The Lua scripts of the Redis store, read once and called by their hash."""

from __future__ import annotations

import functools
import hashlib
from importlib import resources
from typing import NamedTuple


class Script(NamedTuple):
    """A script and the hash that EVALSHA calls it by."""

    text: str
    sha: str


@functools.cache
def script(name: str) -> Script:
    """Return `<name>.lua` with the rules in front that all scripts share."""
    folder = resources.files(__name__)
    text = (folder / "rules.lua").read_text("utf-8") + (folder / f"{name}.lua").read_text("utf-8")
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
