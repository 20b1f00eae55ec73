"""What `help()` says: something of everything public, native or not."""

from __future__ import annotations

import inspect
import types

import pytest

import holdall
from holdall import errors

PUBLIC = [
    name for name in holdall.__all__ if inspect.isclass(getattr(holdall, name)) or callable(getattr(holdall, name))
]


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_public_is_documented(name: str) -> None:
    found = getattr(holdall, name)
    silent = [] if inspect.getdoc(found) else [name]
    if inspect.isclass(found):
        own = [base for base in found.__mro__ if base.__module__.startswith("holdall")]
        members = {member: value for base in reversed(own) for member, value in vars(base).items()}
        silent += [
            member
            for member, value in members.items()
            if not member.startswith("_")
            and isinstance(value, (types.FunctionType, classmethod, staticmethod, property))
            | inspect.ismethoddescriptor(value)
            | inspect.isgetsetdescriptor(value)
            and not inspect.getdoc(getattr(found, member))
        ]
    assert not silent


def test_every_error_can_be_caught_by_its_name_in_holdall() -> None:
    own = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    assert "RequiredOverflowError" in own
    assert own <= set(holdall.__all__)
