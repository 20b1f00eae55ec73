"""Show a URL without what must stay secret."""

from __future__ import annotations

import re
from typing import Final

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
