"""The client below `DynamoStore` and `S3Store`, its errors and its refusals for want of capacity."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from typing import Any, Final

from holdall.errors import ArgumentError, ClosedError
from holdall.stores.loop import HomeLoop
from holdall.stores.swap import Failure

try:
    from aiobotocore.config import AioConfig
    from aiobotocore.session import AioSession, get_session
    from aiohttp import ClientError as HttpError
    from botocore import exceptions
except ImportError as exc:
    raise ImportError(
        "DynamoStore and S3Store need an extra: pip install 'holdall[dynamodb]' or 'holdall[s3]'"
    ) from exc

ClientError = exceptions.ClientError

# Refused before anything was done, because too much is asked at once: asked again a little later.
_THROTTLED: Final = frozenset(
    {
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_THROTTLE_ATTEMPTS: Final = 6
_LEAST_WAIT_S: Final = 0.05
_SERVER_ERROR: Final = 500
# A session keeps the descriptions of services that it has read: a second client costs a thirtieth of the first.
_SESSIONS: Final = threading.local()


def failure_of(error: Exception) -> Failure | None:
    """Say how an error of aiobotocore is to be read."""
    if isinstance(error, ClientError):
        return "lost" if status_of(error) >= _SERVER_ERROR and code_of(error) not in _THROTTLED else "refused"
    if isinstance(error, (exceptions.EndpointConnectionError, exceptions.ConnectTimeoutError)):
        return "unsent"
    if isinstance(error, (exceptions.HTTPClientError, exceptions.IncompleteReadError, exceptions.ChecksumError)):
        return "lost"
    if isinstance(error, exceptions.BotoCoreError):
        # no credentials, no region, arguments that the service does not know
        return "refused"
    return "lost" if isinstance(error, (OSError, asyncio.TimeoutError, HttpError)) else None


def code_of(error: Exception) -> str:
    """Return the service's name for an error, "" if it is not from the service."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def status_of(error: Any) -> int:
    """Return the HTTP status of a refusal."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


class AwsLink:
    """A client that is made on first use, in the loop of that use, with the driver's own retries off.

    Args:
        service: "dynamodb" or "s3".
        name: Of the store, for errors.
        client: An aiobotocore client to use instead of one of our own.
        config: More arguments for the configuration of our own.
        connect: More arguments for `create_client`: region_name, endpoint_url, aws_access_key_id, ...
        timeout_s: For connecting and for each reply.
        max_connections: At most.
    """

    def __init__(
        self,
        service: str,
        name: str,
        *,
        client: Any | None,
        config: dict[str, Any],
        connect: dict[str, Any],
        timeout_s: float,
        max_connections: int,
    ) -> None:
        """Remember how to connect."""
        if client is not None and client.meta.service_model.service_name != service:
            raise ArgumentError(f"client is one of {client.meta.service_model.service_name}, not of {service}")
        self._service = service
        self._name = name
        self._client = client
        self._connect = connect
        self._config = AioConfig(
            retries={"total_max_attempts": 1, "mode": "standard"},
            connect_timeout=timeout_s,
            read_timeout=timeout_s,
            max_pool_connections=max_connections,
            **config,
        )
        self._stack = contextlib.AsyncExitStack()
        self._starting = asyncio.Lock()
        self._owns_client = client is None
        self._home = HomeLoop(service)
        self._is_closed = False
        # a client that repeats a conditional write by itself is told by the second copy that the first one was in its way
        retries = {} if client is None else client.meta.config.retries or {}
        self.has_driver_retries = client is not None and retries.get("total_max_attempts") != 1

    async def request(self, operation: str, **arguments: Any) -> Any:
        """Make one request, again a little later while the service refuses it for want of capacity."""
        client = await self._ready()
        for attempt in range(_THROTTLE_ATTEMPTS):
            try:
                return await getattr(client, operation)(**arguments)
            except ClientError as error:
                if code_of(error) not in _THROTTLED or attempt == _THROTTLE_ATTEMPTS - 1:
                    raise
            await asyncio.sleep(random.uniform(0, _LEAST_WAIT_S * 2**attempt))  # noqa: S311 - jitter, not a secret
        raise AssertionError("the last attempt returns or raises")

    def check_open(self) -> None:
        """Refuse the use of a store that was closed."""
        if self._is_closed:
            raise ClosedError(f"this {self._name} was closed; make a new one")

    async def _ready(self) -> Any:
        self.check_open()
        self._follow_loop()
        if self._client is None:
            async with self._starting:
                if self._client is None:
                    if not hasattr(_SESSIONS, "session"):
                        _SESSIONS.session = get_session()
                    session: AioSession = _SESSIONS.session
                    try:
                        self._client = await self._stack.enter_async_context(
                            session.create_client(self._service, config=self._config, **self._connect)
                        )
                    except (ValueError, TypeError) as error:
                        raise ArgumentError(f"{self._name} cannot connect with what it was given: {error}") from error
                    if self._is_closed:
                        # closed while this was under way, which then found nothing to close
                        await self._stack.aclose()
                        self.check_open()
        return self._client

    def _follow_loop(self) -> None:
        if self._owns_client and self._home.has_moved():
            self._client, self._starting = None, asyncio.Lock()
            # not closed: what would be waited for in there is of a loop that has ended
            self._stack.pop_all()

    async def close(self) -> None:
        """Close the client, if it is ours."""
        if not self._is_closed:
            self._follow_loop()
            self._is_closed = True
            await self._stack.aclose()
