"""moto's DynamoDB and S3, one request at a time: `python aws_server.py HOST PORT`.

moto's own server runs requests in threads and loses updates between them. Here one loop calls it, so that each request is
over before the next begins, and connections are kept open, which moto's server does not do.
"""

from __future__ import annotations

import io
import sys
from typing import Any

from aiohttp import web
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.server import create_backend_app

APPS = {name: create_backend_app(name) for name in ("dynamodb", "s3")}
MOST_BYTES = 2**30


def query_one_partition() -> None:
    """Let a query look at the items of its partition: moto sorts and looks at those of the whole table, every time."""
    query = Table.query

    def of_partition(table: Table, hash_key: DynamoType, *arguments: Any, **options: Any) -> Any:
        every = table.items
        table.items = {hash_key: every.get(hash_key, {})}
        try:
            return query(table, hash_key, *arguments, **options)
        finally:
            table.items = every

    Table.query = of_partition


async def answer(request: web.Request) -> web.Response:
    """Call moto's WSGI application with one request."""
    body = await request.read()
    app = APPS["dynamodb" if "x-amz-target" in request.headers else "s3"]
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": request.url.raw_path if app is APPS["dynamodb"] else request.path,
        "RAW_URI": request.raw_path,
        "REQUEST_URI": request.raw_path,
        "QUERY_STRING": request.rel_url.raw_query_string,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": str(request.url.port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers.items():
        environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
    started: list[Any] = []
    said = b"".join(app(environ, lambda status, headers, _error=None: started.extend((status, headers))))
    status, headers = started
    kept = [(name, value) for name, value in headers if name.lower() not in ("content-length", "connection")]
    response = web.Response(status=int(status.split()[0]), body=said)
    for name, value in kept:
        response.headers[name] = value
    return response


def main() -> None:
    query_one_partition()
    app = web.Application(client_max_size=MOST_BYTES)
    app.router.add_route("*", "/{path:.*}", answer)
    web.run_app(app, host=sys.argv[1], port=int(sys.argv[2]), print=None, access_log=None)


if __name__ == "__main__":
    main()
