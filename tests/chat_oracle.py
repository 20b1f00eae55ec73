"""What a conversation costs, written again from the rule in `rust/chat/framing.rs`, in plain Python over plain values."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Count = Callable[[str], int]

PER_MESSAGE, PER_NAME, PER_REQUEST, PER_CALL, PER_PART = 3, 1, 3, 3, 0
IMAGES = {"image", "image_url", "input_image", "output_image", "computer_screenshot"}
AUDIO = {"audio", "input_audio", "output_audio", "audio_url"}
VIDEO = {"video", "video_url", "input_video"}
FILES = {"file", "input_file"}
HOLDERS = (
    *("image_url", "source", "input_audio", "audio", "file", "video_url", "input_video", "video", "image"),
    *("audio_url", "data", "base64", "file_data", "url"),
)
PLAIN = {
    *(
        "name",
        "text",
        "content",
        "thinking",
        "reasoning",
        "reasoning_content",
        "refusal",
        "output",
        "arguments",
        "input",
    ),
}
ENCRYPTED = {"encrypted_content", "encrypted_index", "signature", "thought_signature", "thoughtSignature"}


class Oracle:
    """The rule for one format and one counter."""

    def __init__(self, count: Count, fmt: str) -> None:
        self.count = count
        self.format = fmt

    def request(self, messages: list[Any], system: Any = None) -> int:
        total = PER_REQUEST + sum(self.message(m) for m in messages)
        return total + (0 if system is None else self.message({"role": "system", "content": system}))

    def message(self, message: Mapping[str, Any]) -> int:
        kind = message.get("type")
        is_call = (
            self.format == "responses"
            and isinstance(kind, str)
            and (kind.endswith("_call") or kind == "mcp_approval_request")
        )
        named = PER_NAME if isinstance(message.get("name"), str) else 0
        return PER_MESSAGE + named + (PER_CALL if is_call else 0) + self.fields(message)

    def fields(self, value: Mapping[str, Any]) -> int:
        kind = value.get("type") if isinstance(value.get("type"), str) else ""
        return sum(self.value(k, kind, v) for k, v in value.items())

    def value(self, key: str, kind: Any, value: Any) -> int:
        if isinstance(value, str):
            return self.string(key, kind, value)
        if isinstance(value, (dict, list)) and key in ("arguments", "input"):
            return self.count(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        if isinstance(value, list):
            if key in ("content", "output", "summary"):
                return sum(self.part(e) for e in value)
            extra = PER_CALL if key == "tool_calls" else 0
            return sum(extra + self.value("", "", e) for e in value)
        if isinstance(value, dict):
            if key in ("content", "output"):
                return self.part(value)
            return (PER_CALL if key == "function_call" else 0) + self.fields(value)
        return 0

    def part(self, part: Any) -> int:
        if isinstance(part, str):
            return PER_PART + self.count(part)
        if isinstance(part, list):
            return PER_PART + self.value("", "", part)
        if not isinstance(part, dict):
            return PER_PART
        kind = part.get("type")
        if not isinstance(kind, str):
            kind = ""
        medium = medium_of(kind, part)
        if medium:
            captions = sum(self.count(part[k]) for k in ("title", "context") if isinstance(part.get(k), str))
            return PER_PART + captions + self.medium(*medium)
        return PER_PART + (PER_CALL if kind.endswith("tool_use") else 0) + self.fields(part)

    def string(self, key: str, kind: str, text: str) -> int:
        if key in PLAIN:
            return self.count(text)
        if key in ENCRYPTED or (key == "data" and kind in ("redacted_thinking", "reasoning.encrypted")):
            return -(-3 * len(text.encode()) // 16)
        if key == "b64_json" or (key == "result" and kind == "image_generation_call"):
            return self.medium("image", "", text, low=False)
        uri = data_uri(text)
        if uri:
            top = uri[0].split("/")[0]
            return self.medium(top if top in ("image", "audio", "video") else "file", *uri, low=False)
        return self.count(text)

    def medium(self, kind: str, mime: str, data: str | None, low: bool) -> int:
        size = None if data is None else len(data.rstrip("=").encode()) * 3 // 4
        if kind == "image":
            return image_tokens(self.format, None if data is None else png_size(data), low=low)
        if kind == "audio":
            return 300 if size is None else 10 * -(-size // 16_000)
        if kind == "video":
            return 5000 if size is None else -(-size // 1000)
        words = ("json", "xml", "yaml", "csv", "javascript")
        textual = mime.startswith("text/") or mime.partition(";")[0].endswith(words)
        return 2000 if size is None else -(-size // (3 if textual else 8))


def image_tokens(fmt: str, size: tuple[int, int] | None, *, low: bool) -> int:
    if fmt == "anthropic":
        return 1600 if size is None else min(-(-size[0] * size[1] // 750), 4784)
    if low:
        return 85
    if size is None:
        return 765
    w, h = size
    if max(w, h) > 2048:
        w, h = max(w * 2048 // max(size), 1), max(h * 2048 // max(size), 1)
    if min(w, h) > 768:
        w, h = w * 768 // min(w, h), h * 768 // min(w, h)
    return 85 + 170 * -(-w // 512) * -(-h // 512)


def png_size(data: str) -> tuple[int, int] | None:
    if not re.fullmatch(r"[A-Za-z0-9+/_-]{32}", data[:32]):
        return None
    head = base64.urlsafe_b64decode(data[:32].replace("+", "-").replace("/", "_"))
    if not head.startswith(b"\x89PNG\r\n\x1a\n"):
        return None
    size = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    return size if all(size) else None


def data_uri(text: str) -> tuple[str, str] | None:
    head, comma, data = text.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64") or len(head) > 260:
        return None
    return head[5:-7].split(";")[0], data


def medium_of(kind: str, part: Mapping[str, Any]) -> tuple[str, str, str | None, bool] | None:
    names = [(IMAGES, "image"), (AUDIO, "audio"), (VIDEO, "video"), (FILES, "file")]
    medium = next((name for kinds, name in names if kind in kinds), None)
    if kind == "document" and part.get("source") is not None:
        source = part["source"]
        if not (isinstance(source, dict) and source.get("type") in ("text", "content")):
            medium = "file"
    if medium is None:
        return None
    low = part.get("detail") == "low"
    for holder in HOLDERS:
        held = part.get(holder)
        if isinstance(held, str):
            return medium, *payload(holder, part, held), low
        if isinstance(held, dict):
            low = low or held.get("detail") == "low"
            for key in ("data", "base64", "file_data", "url"):
                if held.get(key) is not None:
                    return medium, *payload(key, held, held[key]), low
            break
    return medium, "", None, low


def payload(key: str, holder: Mapping[str, Any], text: Any) -> tuple[str, str | None]:
    if not isinstance(text, str):
        return "", None
    uri = data_uri(text)
    if uri:
        return uri
    if key in ("data", "base64", "file_data") and "://" not in text[:16]:
        keys = ("media_type", "mime_type", "mimeType", "format")
        return next((holder[k] for k in keys if isinstance(holder.get(k), str)), ""), text
    return "", None


def texts(value: Any) -> Iterator[str]:
    """Every string inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
