"""The recorded conversations whose questions name the messages that hold their answers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdall import Tokenizer

SHARED = Path(os.environ.get("HOLDALL_SHARED", Path(__file__).resolve().parents[2] / "shared"))
DATA = SHARED / "data" / "recall"
SETS = {"BEAM": "beam_100k.jsonl", "LoCoMo": "locomo10_NC.jsonl", "QMSum": "qmsum.jsonl"}
# What a message costs beside its content and its name.
PER_MESSAGE = 4


@dataclass
class Conversation:
    """A recorded conversation, with what every strategy needs worked out once."""

    id: str
    messages: list[dict[str, Any]]
    questions: list[tuple[str, set[int]]]
    tokens: list[int] = field(default_factory=list)

    def texts(self) -> list[str]:
        """The text that is searched: the speaker's name, then what was said."""
        return [f"{message.get('name') or ''} {message['content']}" for message in self.messages]


def load(path: Path) -> list[Conversation]:
    """Read a set; questions without evidence have no recall and are left out."""
    tok = Tokenizer("cl100k_base")
    conversations = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        at = {message["id"]: n for n, message in enumerate(record["messages"])}
        questions = [
            (question["question"], {at[name] for name in question["evidence_ids"]})
            for question in record["questions"]
            if question["evidence_ids"]
        ]
        spoken = [message["content"] for message in record["messages"]]
        names = [message.get("name") or "" for message in record["messages"]]
        counts = zip(tok.count_many(spoken), tok.count_many(names), strict=True)
        tokens = [text + name + PER_MESSAGE for text, name in counts]
        conversations.append(Conversation(record["id"], record["messages"], questions, tokens))
    return conversations
