"""Show a URL without what must stay secret."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from holdall.errors import ArgumentError

# Up to the LAST @: a password may itself hold @, / or # where it was not escaped.
_USERINFO: Final = re.compile(
    r"(?P<scheme>[^:/?#\s]*://)(?P<user>[^:@/?#]*):(?P<password>.*)@(?P<rest>[^@]*)", re.DOTALL
)
_SECRET_FIELDS: Final = re.compile(
    r"(?P<field>[?&;](?:[^=&;]*(?:passw|pwd|secret|token|sslkey|authmechanismprop)[^=&;]*)=)[^&;#]*", re.IGNORECASE
)


def mask_url(url: str) -> str:
    """Return the URL with its password, and every query field that looks like one, shown as ***."""
    masked = _USERINFO.sub(lambda found: f"{found['scheme']}{found['user']}:***@{found['rest']}", url)
    return _SECRET_FIELDS.sub(lambda found: f"{found['field']}***", masked)


def split_url(url: str) -> SplitResult:
    """Split a URL as `urlsplit` does, but for its hosts: newer ones of it refuse a bracket that is not the first of them."""
    scheme, _, rest = url.partition("://")
    hosts = re.split("[/?#]", rest, maxsplit=1)[0]
    return urlsplit(f"{scheme}://{rest[len(hosts) :]}")._replace(netloc=hosts)


def unreadable(url: str, error: Exception) -> ArgumentError:
    """Return the error for a URL that a driver cannot read; not with its text, which may quote a part of a password."""
    return ArgumentError(
        f"cannot read {mask_url(url)} ({type(error).__name__}): write it as scheme://user:password@host:port/..., with "
        "what is special in a password escaped as in %2F, and fields that the driver knows"
    )
