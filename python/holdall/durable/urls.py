"""Show a URL without what must stay secret; read one that names a table or a bucket."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from holdall.errors import ArgumentError

# Up to the LAST @ before the path: a password may itself hold @ or / when it was not escaped.
_USERINFO: Final = re.compile(
    r"(?P<scheme>[^:/?#\s]*://)(?P<user>[^:@/?#]*):(?P<password>.*)@(?P<rest>[^@]*)", re.DOTALL
)
_SECRET_FIELDS: Final = re.compile(
    r"(?P<field>[?&;](?:[^=&;]*(?:passw|pwd|secret|token|sslkey)[^=&;]*)=)[^&;#]*", re.IGNORECASE
)


def mask_url(url: str) -> str:
    """Return the URL with its password, and every query field that looks like one, shown as ***."""
    masked = _USERINFO.sub(lambda found: f"{found['scheme']}{found['user']}:***@{found['rest']}", url)
    return _SECRET_FIELDS.sub(lambda found: f"{found['field']}***", masked)


_AWS_FIELDS: Final = {"region": "region_name", "endpoint_url": "endpoint_url"}


def aws_url(source: str, scheme: str) -> tuple[str, str, dict[str, str]]:
    """Read `scheme://NAME/PATH?region=...&endpoint_url=...`, or NAME alone: return name, path and arguments for the client.

    Raises:
        ArgumentError: It carries credentials, which belong where AWS's tools look for them, or a field that is not known.
    """
    if not source.startswith(f"{scheme}://"):
        return source, "", {}
    parts = urlsplit(source)
    if "@" in parts.netloc:
        raise ArgumentError(
            f"{mask_url(source)} carries credentials: leave them to the environment, a profile or a role, or give them as connect="
        )
    fields = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(fields.keys() - _AWS_FIELDS.keys())
    if unknown:
        raise ArgumentError(f"{scheme}:// takes {' and '.join(_AWS_FIELDS)} as fields, not {', '.join(unknown)}")
    return parts.netloc, unquote(parts.path.strip("/")), {_AWS_FIELDS[name]: value for name, value in fields.items()}
