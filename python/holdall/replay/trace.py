"""A recorded conversation, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from holdall.errors import ArgumentError
from holdall.replay.shape import is_output, shape_of

Message = Mapping[str, Any]

# What recorders note beside a chat message and no chat API takes; it was never sent, so it is not counted.
NOTES: Final = frozenset({"id", "timestamp", "created_at", "session", "usage", "metadata", "is_error"})


@dataclass(frozen=True)
class Question:
    """A question about a conversation, and the messages that hold its answer.

    Attributes:
        text: What is asked, as one user message after the conversation.
        evidence: Indices of the messages that hold the answer; at least one.
        category: What kind of question it is, if that is known.
    """

    text: str
    evidence: frozenset[int]
    category: str = ""


@dataclass(frozen=True)
class Trace:
    """A recorded conversation.

    Attributes:
        id: Its name in reports.
        source: The set it belongs to, such as the file it came from; figures are given for each.
        messages: OpenAI chat messages, OpenAI Responses items or Anthropic messages, as they were sent.
        format: Which of the three.
        system: The system prompt, where the format keeps it apart.
        tools: Tool schemas that every request carries.
        questions: What evidence recall is measured with.
    """

    id: str
    source: str
    messages: Sequence[Message]
    format: str = "openai"
    system: Any = None
    tools: Sequence[Any] | None = None
    questions: Sequence[Question] = field(default=())

    def turns(self) -> list[int]:
        """Where the model was asked: each n for which a request held the first n messages.

        A request stands before every stretch of model output, and at the end where the model had not answered yet.
        """
        outputs = [is_output(message) for message in self.messages]
        places = [n for n, output in enumerate(outputs) if output and n and not outputs[n - 1]]
        if outputs and not outputs[-1]:
            places.append(len(outputs))
        first = next((n for n, message in enumerate(self.messages) if shape_of(message).role != "system"), 0)
        return [n for n in places if n > first]


def without_notes(message: Message) -> Message:
    """A chat message without what a recorder noted beside it; Responses items keep their ids."""
    if "role" not in message or "type" in message or not NOTES & message.keys():
        return message
    return {key: value for key, value in message.items() if key not in NOTES}


def questions_of(rows: Any, messages: Sequence[Message], where: str) -> tuple[Question, ...]:
    """Read questions that name their evidence by the messages' ids, or by index; those without evidence are left out."""
    if rows is None:
        return ()
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ArgumentError(f"{where}: `questions` must be a list of objects")
    at = {message["id"]: n for n, message in enumerate(messages) if isinstance(message.get("id"), (str, int))}
    found = []
    for row in rows:
        names = row.get("evidence_ids") or []
        if not isinstance(row.get("question"), str) or not isinstance(names, list):
            raise ArgumentError(f"{where}: a question needs the text `question` and the list `evidence_ids`")
        places: set[int] = set()
        for name in names:
            place = at.get(name, name) if isinstance(name, (str, int)) and not isinstance(name, bool) else None
            if not isinstance(place, int) or not 0 <= place < len(messages):
                raise ArgumentError(f"{where}: no message has the id {name!r}, which a question names as evidence")
            places.add(place)
        if places:
            found.append(Question(row["question"], frozenset(places), str(row.get("category") or "")))
    return tuple(found)
