"""A stand-in for the data plane of a Pinecone index, built from its published REST reference: one dense cosine index.

Not Pinecone: it has its requests, its answers and its refusals as documented, and none of its delays.
"""

from __future__ import annotations

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

KEY = "local"


class Refusal(Exception):  # noqa: N818 - an answer
    """What the service answers with a status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Pinecone:
    """An index of one dimension, on a loopback port."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.spaces: dict[str, dict[str, dict[str, Any]]] = {}
        self.lock = threading.Lock()
        self.requests: list[str] = []
        index = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                self.answer(parts.path, parse_qs(parts.query))

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                self.answer(self.path, json.loads(self.rfile.read(length) or b"{}"))

            def answer(self, path: str, body: dict[str, Any]) -> None:
                try:
                    with index.lock:
                        status, said = 200, index.handle(self.headers.get("Api-Key"), self.command, path, body)
                except Refusal as refusal:
                    status, said = refusal.status, {"code": 3, "message": str(refusal), "details": []}
                data = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    @property
    def host(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def handle(self, key: str | None, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if key != KEY:
            raise Refusal(401, "Invalid API Key")
        self.requests.append(f"{method} {path}")
        routes = {
            ("POST", "/vectors/upsert"): self.upsert,
            ("POST", "/query"): self.query,
            ("GET", "/vectors/fetch"): self.fetch,
            ("POST", "/vectors/delete"): self.delete,
            ("POST", "/describe_index_stats"): self.stats,
            ("GET", "/namespaces"): self.namespaces,
        }
        if (method, path) not in routes:
            raise Refusal(404, f"no {method} {path}")
        return routes[method, path](body)

    def upsert(self, body: dict[str, Any]) -> dict[str, Any]:
        vectors = body["vectors"]
        if not 1 <= len(vectors) <= 1000 or len(json.dumps(body)) > 2 * 1024 * 1024:
            raise Refusal(400, "an upsert takes 1 to 1000 vectors and 2 MB")
        for vector in vectors:
            if not (1 <= len(vector["id"]) <= 512 and vector["id"].isascii()):
                raise Refusal(400, "Vector ID must be ASCII of 1 to 512 characters")
            self.check_vector(vector["values"])
            check_metadata(vector.get("metadata", {}))
        space = self.spaces.setdefault(body.get("namespace", ""), {})
        space.update({vector["id"]: vector for vector in vectors})
        return {"upsertedCount": len(vectors)}

    def check_vector(self, values: list[float]) -> None:
        if len(values) != self.dimension:
            raise Refusal(
                400, f"Vector dimension {len(values)} does not match the dimension of the index {self.dimension}"
            )
        if not any(values):
            raise Refusal(400, "Dense vectors must contain at least one non-zero value")

    def query(self, body: dict[str, Any]) -> dict[str, Any]:
        if not 1 <= body["topK"] <= 10_000:
            raise Refusal(400, "topK must be 1 to 10000")
        self.check_vector(body["vector"])
        name, wanted = body.get("namespace", ""), body.get("filter")
        matches = [
            {
                "id": vector["id"],
                "score": cosine(body["vector"], vector["values"]),
                "values": vector["values"] if body.get("includeValues") else [],
                **({"metadata": vector.get("metadata", {})} if body.get("includeMetadata") else {}),
            }
            for vector in self.spaces.get(name, {}).values()
            if wanted is None or meets(vector.get("metadata", {}), wanted)
        ]
        matches.sort(key=lambda match: -match["score"])
        return {"matches": matches[: body["topK"]], "namespace": name, "usage": {"readUnits": 1}}

    def fetch(self, query: dict[str, Any]) -> dict[str, Any]:
        name = query.get("namespace", [""])[0]
        space = self.spaces.get(name, {})
        return {
            "vectors": {one: space[one] for one in query["ids"] if one in space},
            "namespace": name,
            "usage": {"readUnits": 1},
        }

    def delete(self, body: dict[str, Any]) -> dict[str, Any]:
        space = self.spaces.get(body.get("namespace", ""))
        if space is None:
            raise Refusal(404, "Namespace not found")
        if "ids" in body:
            if len(body["ids"]) > 1000:
                raise Refusal(400, "a delete takes 1000 ids")
            gone = set(body["ids"])
        elif "filter" in body:
            gone = {name for name, vector in space.items() if meets(vector.get("metadata", {}), body["filter"])}
        else:
            raise Refusal(400, "one of ids, filter, deleteAll")
        for name in gone & space.keys():
            del space[name]
        return {}

    def stats(self, _: dict[str, Any]) -> dict[str, Any]:
        counts = {name or "__default__": {"vectorCount": len(space)} for name, space in self.spaces.items()}
        total = sum(one["vectorCount"] for one in counts.values())
        return {"namespaces": counts, "dimension": self.dimension, "indexFullness": 0, "totalVectorCount": total}

    def namespaces(self, query: dict[str, Any]) -> dict[str, Any]:
        names = sorted(self.spaces)
        start, size = int(query.get("paginationToken", ["0"])[0]), int(query.get("limit", ["2"])[0])
        page = [
            {"name": name or "__default__", "record_count": str(len(self.spaces[name]))}
            for name in names[start : start + size]
        ]
        more = {"pagination": {"next": str(start + size)}} if start + size < len(names) else {}
        return {"namespaces": page, "total_count": len(names), **more}


def check_metadata(metadata: dict[str, Any]) -> None:
    if len(json.dumps(metadata, ensure_ascii=False).encode()) > 40 * 1024:
        raise Refusal(400, "metadata size exceeds 40 KB")
    for name, value in metadata.items():
        is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
        if name.startswith("$") or not (isinstance(value, (str, int, float, bool)) or is_list):
            raise Refusal(400, f"Metadata value must be a string, number, boolean or list of strings, got {value!r}")


def meets(metadata: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Pinecone's filter language, as its reference describes it."""
    for name, condition in wanted.items():
        if name == "$and":
            if not all(meets(metadata, one) for one in condition):
                return False
        elif name == "$or":
            if not any(meets(metadata, one) for one in condition):
                return False
        elif name.startswith("$") or not all(compare(metadata.get(name), how, to) for how, to in condition.items()):
            return False
    return True


def compare(value: Any, how: str, to: Any) -> bool:
    values = value if isinstance(value, list) else [] if value is None else [value]
    if how == "$eq":
        return any(same(one, to) for one in values)
    if how == "$in":
        return any(same(one, other) for one in values for other in to)
    if how in ("$gt", "$gte", "$lt", "$lte"):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return {"$gt": value > to, "$gte": value >= to, "$lt": value < to, "$lte": value <= to}[how]
    raise Refusal(400, f"no operator {how}")


def same(a: Any, b: Any) -> bool:
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def cosine(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))
