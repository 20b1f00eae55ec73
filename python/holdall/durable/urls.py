"""Read a URL that names a table or a bucket."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from holdall.errors import ArgumentError
from holdall.stores.urls import mask_url

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
