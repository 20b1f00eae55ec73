"""The compiled module. Shapes, units and errors are described here; the Rust bindings carry one line each."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, Literal, SupportsIndex, TypeAlias, TypeVar, final, overload

from typing_extensions import Self

from holdall.context.report import Calibration, Dropped, Kept

__version__: str

# -- tokens ------------------------------------------------------------------------------------------------------------

@final
class CacheInfo:
    """How a tokenizer's memory of counts has served."""

    @property
    def hits(self) -> int:
        """Counts that were remembered."""
    @property
    def misses(self) -> int:
        """Counts that had to be made."""
    @property
    def entries(self) -> int:
        """Texts remembered now."""
    @property
    def bytes(self) -> int:
        """Memory that they hold."""

@final
class Tokenizer:
    """Counts tokens as one model does; exact, offline, safe to share between threads and to send to other processes.

    Text that looks like a special token counts as text. A lone surrogate counts as U+FFFD, two that form a pair as their
    character, as in tiktoken. Counts of longer texts are remembered (a bounded number of them), so that counting a
    history again costs what is new in it.
    """

    def __new__(cls, name: str) -> Self:
        """Take an embedded encoding.

        Args:
            name: "o200k_base" or "cl100k_base".

        Raises:
            UnknownNameError: Another name; its `known` lists those there are.
        """

    @classmethod
    def for_model(cls, name: str) -> Self:
        """Take the encoding of an OpenAI model, for example "gpt-4o", "openai/gpt-5-mini" or "ft:gpt-4.1:org".

        Raises:
            UnknownNameError: The model has no public tokenizer (Claude, Gemini) or is not known; use `from_callable`,
                with a margin if the function only estimates.
        """

    @classmethod
    def from_tiktoken(cls, encoding: Any) -> Self:
        """Count as a `tiktoken.Encoding` does by `encode_ordinary`."""

    @classmethod
    def from_callable(cls, count: Callable[[str], int], margin: float = 0.0) -> Self:
        """Count with a function of the caller's, which must give the same number for the same text.

        Args:
            count: Tokens of a text, at least 0. What it raises comes through as it is.
            margin: Safety share for a function that estimates: budgets are divided by 1 + margin. Finite, at least 0.

        Raises:
            ArgumentError: The margin is outside its range; when counting, the function gave a negative number.
            TypeError: `count` is not callable; when counting, it gave something that is not an int.
        """

    def count(self, text: str) -> int:
        """Tokens of `text`. From 2 KiB on the GIL is released.

        Ordinary text is counted on the thread that calls: a megabyte takes 2 ms. Threads of its own join in only where 128 KiB or
        more must be merged byte by byte: a piece of that length without a place to cut it (letters without spaces), or that much
        text of unknown words, as what is left promises by what was read. They are at most one for each other processor that the
        process may use, for all calls together, and end with the call; `taskset -c 0` and the like leave none.
        """

    def count_many(self, texts: Iterable[str]) -> list[int]:
        """Tokens of each text, in order; long work is shared by all cores, with the GIL released."""

    def fits(self, text: str, limit: int) -> bool:
        """Whether `text` has at most `limit` tokens; stops counting as soon as that is sure.

        Raises:
            ArgumentError: The limit is negative.
        """

    def cut(self, text: str, limit: int) -> str:
        """The longest prefix of `text` with at most `limit` tokens.

        One more character can complete a token, so a prefix can have fewer tokens than a shorter one: this is the
        longest of all that are within the limit. It never parts a character (nor a pair of surrogates). With a counter
        of the caller's it is found by bisection, and a longer one may exist where counts fall again.

        Raises:
            ArgumentError: The limit is negative.
        """

    @property
    def name(self) -> str:
        """Name of the encoding, or of the function."""
    @property
    def margin(self) -> float:
        """Safety share, 0 for exact counters."""
    def cache_info(self) -> CacheInfo:
        """How the memory of counts has served since it was made or cleared."""

    def cache_clear(self) -> None:
        """Forget all counts."""

# -- chat --------------------------------------------------------------------------------------------------------------

def extractive_summary(text: str | Iterable[str], max_tokens: int, *, tokenizer: Tokenizer | None = None) -> str | None:
    """Summarise by picking sentences: no model, the same text for the same input.

    Args:
        text: One text, or several such as the messages of a history.
        max_tokens: Tokens the summary may have, at least 0.
        tokenizer: Counts them; o200k_base if none is given.

    Returns:
        The weightiest sentences in their order; None where not one fits. Code blocks are left out.

    Time linear in the text.
    """

def count_messages(
    messages: Sequence[Mapping[str, Any]],
    *,
    tokenizer: Tokenizer | None = None,
    system: str | Sequence[Mapping[str, Any]] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    format: Literal["openai", "responses", "anthropic"] | None = None,  # noqa: A002
    overhead: Mapping[str, int | str] | None = None,
) -> int:
    """Count the tokens of a conversation as it is sent: every string of it, its framing, its media, its tools.

    With the default overhead, `tok` the tokenizer and `json` compact with non-ASCII unescaped:

    - the request costs 3, and each message 3, 1 if it has a `name`, and `tok(s)` for every string in it, keys not counted:
      role, content, name, ids, types, and whatever else is sent. Booleans, numbers and null cost nothing;
    - each call costs 3 more: an element of `tool_calls`, a `function_call`, a block whose type ends with "tool_use", a
      Responses item whose type ends with "_call". `arguments` or `input` that is not text counts as `tok(json(...))`;
    - images, audio, video and files cost what their type's rule says, from their size, never from their base64: an OpenAI
      image 85 + 170 for each tile of 512 x 512 (unknown size 765, low detail 85), an Anthropic image width x height / 750
      (at most 4784, unknown 1600), audio 10 a second, a file 1 for 8 bytes (text files 3; unknown 2000);
    - encrypted reasoning and signatures cost 3 for 16 characters;
    - the system prompt costs as a message with role "system"; tools cost 12 once, and each 7 and `tok(json(tool))`.

    Args:
        messages: OpenAI chat messages, OpenAI Responses items or Anthropic messages: dicts, other mappings, or the SDKs'
            own objects.
        tokenizer: Counts the strings; o200k_base if none is given. Its margin is not applied.
        system: A system prompt beside the messages, as Anthropic takes it.
        tools: The tool schemas of the request.
        format: The messages' format; found from the messages if none is given.
        overhead: Other figures, each an integer of at least 0: per_message, per_name, per_request, per_call, per_part,
            per_audio_second, audio_bytes_per_second, audio_unknown, text_file_bytes_per_token, file_bytes_per_token,
            file_unknown, video_bytes_per_token, video_unknown; and image: tokens for each, or "openai" or "anthropic".

    Raises:
        MessageError: A message cannot be read; `index`, `path` and `reason` say where and why.
        ToolSchemaError: A tool is not a JSON value.
        UnknownNameError: A format or a figure of the overhead that there is not.
        ArgumentError: `messages` is not a list, or the system prompt is neither text nor blocks.

    Time O(size of the conversation).
    """

def _chat_groups(messages: Sequence[Any], *, format: str | None = None, system: object = None) -> dict[str, Any]:  # noqa: A002
    """The format, the groups and what is wrong with a conversation, for tests."""

def _chat_sendable(messages: Sequence[Any], *, format: str | None = None, system: object = None) -> list[Any]:  # noqa: A002
    """The messages that can be sent: the caller's own objects, or repaired copies; for tests."""

def _chat_parts(message: object, *, format: str = "openai") -> list[tuple[str, str, str, bool]]:  # noqa: A002
    """The parts of a message: path, path of the text, text, whether the text may be changed; for tests."""

def _chat_edit(message: object, edits: Sequence[tuple[Sequence[str | int], str | None]]) -> Any:
    """A copy with the text at each path replaced, or what is there removed; for tests."""

def _chat_fingerprint(message: object) -> int:
    """A hash of a message's content, order and shape; for tests."""

# -- relevance ---------------------------------------------------------------------------------------------------------

@final
class LexicalIndex:
    """BM25 over texts, growing with the conversation: a new text costs its own terms, not those before it.

    Words are stemmed (English) and freed of accents, identifiers give their parts and the whole, scripts without spaces
    give pairs of characters. Safe to share between threads. Equal input gives equal scores.
    """

    def __new__(cls, *, k1: float = 1.2, b: float = 0.5) -> Self:
        """Make an empty index.

        Args:
            k1: How soon repeating a term stops helping, at least 0.
            b: How much a long text is held against it, 0 to 1.

        Raises:
            ArgumentError: One of them is outside its range.
        """

    def add(self, text: str) -> None:
        """Add a text at the end, in microseconds per message."""

    def add_many(self, texts: Sequence[str]) -> None:
        """Add texts at the end, in order, with the GIL released while they are split."""

    def truncate(self, n: int) -> None:
        """Forget all texts from the nth on."""

    def scores(self, query: str) -> list[float]:
        """One score per text, in the order they were added; 0 where no term of the query occurs."""

    def __len__(self) -> int: ...

def sharpen_and_spread(
    scores: Sequence[float],
    *,
    power: float = 2.0,
    kernel: tuple[float, float, float, float] = (0.5, 0.3, 0.2, 0.1),
    tail: float = 0.04,
    reach: int = 20,
) -> list[float]:
    """Turn scores into relevance: raised to a power, then shared with the neighbours.

    Args:
        scores: One per text in conversation order; what is below 0 or not finite counts as 0.
        power: Above 1 sharpens.
        kernel: Share of its sharpened score that a text gives to those at distance 1, 2, 3 and 4.
        tail: Share that it gives to those further away.
        reach: The distance at which the tail ends.

    Returns:
        Relevance in 0 to 1, the largest exactly 1; all 1 where nothing matched.

    Raises:
        ArgumentError: The power is not above 0, or a share is below 0.
    """

def fuse_by_rank(lexical: Sequence[float], semantic: Sequence[float], *, k: float = 60.0) -> list[float]:
    """Combine two scorings of the same texts by reciprocal rank: the sum of 1 / (k + rank), scaled to a largest of 1.

    Equal scores share the best of their ranks; a lexical score of 0 or below found nothing and adds nothing.

    Raises:
        ArgumentError: The lengths differ, or a score is not finite.
    """

# -- semantic ----------------------------------------------------------------------------------------------------------

@final
class MemoryIndex:
    """Vectors and texts under labels, searched exactly; what `EmbeddedMemory` keeps of each namespace.

    A vector is held as floats and as bytes: a search reads the bytes of all, which bound each score from both sides, and the
    floats of those only that may be among the best. Equal input gives equal answers on every machine. Searches of several
    threads run beside each other, with the GIL released.
    """

    def __new__(cls, metric: Literal["cosine", "dot"] = "cosine") -> Self:
        """Make an empty index.

        Raises:
            UnknownNameError: There is no such metric.
        """

    def add_many(self, labels: Sequence[int], vectors: Sequence[bytes | None], texts: Sequence[str]) -> None:
        """Add entries, each in place of the one with its label.

        Args:
            labels: One for each entry.
            vectors: Little-endian 32-bit floats, all of one length; None for an entry that words alone find.
            texts: For `matching`; may be empty.

        Raises:
            ArgumentError: The lengths differ, or a vector has another length than those before it, no direction, or what is
                not finite; the entries before it are in then.
        """

    def remove_many(self, labels: Sequence[int]) -> int:
        """Forget labels; return how many of them there were."""

    def nearest(self, vector: bytes, k: int, allowed: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """The labels and scores of the nearest, nearest first and equal ones by label; among `allowed`, if it is given.

        Raises:
            ArgumentError: As `add_many`.
        """

    def matching(self, query: str, k: int, allowed: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """The labels and BM25 scores of the texts with a word of the query, best first; among `allowed`, if it is given."""

    @property
    def dims(self) -> int:
        """Floats in each vector; 0 where there is none."""

    def __len__(self) -> int: ...

def text_terms(text: str) -> tuple[list[int], list[int], int]:
    """The terms that BM25 counts in a text: 48-bit hashes, ascending, how often each occurs, and how many there are in all."""

# -- score -------------------------------------------------------------------------------------------------------------

PRIORITY_WEIGHTS: MappingProxyType[str, float]
"""What each known item type is worth before recency and relevance; types of 0.9 and more are required."""

@final
class Recency:
    """How the worth of an item fades with its age (largest turn index minus its own); the newest is worth 1."""

    @classmethod
    def relative(cls, rate: float = 2.0) -> Recency:
        """exp(-rate x age / largest turn index): a long conversation fades as a whole.

        Args:
            rate: Finite, at least 0; 2.0 halves at 0.347 of the conversation.

        Raises:
            ArgumentError: The rate is negative or not finite.
        """

    @classmethod
    def half_life(cls, turns: float = 5.0) -> Recency:
        """0.5 ** (age / turns): independent of the length of the conversation.

        Args:
            turns: Turns after which half is left; finite, above 0.

        Raises:
            ArgumentError: `turns` is not a finite number above 0.
        """

    @classmethod
    def none(cls) -> Recency:
        """Age does not matter."""

    @property
    def kind(self) -> Literal["relative", "half_life", "none"]:
        """Which rule this is."""

    @property
    def rate(self) -> float | None:
        """The rate of `relative`, else None."""

    @property
    def turns(self) -> float | None:
        """The turns of `half_life`, else None."""

    def at(self, turn_index: int, *, max_turn: int) -> float:
        """Return what is left at `turn_index` of the worth of the newest turn, in 0..1."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

# -- pack --------------------------------------------------------------------------------------------------------------

_T_co = TypeVar("_T_co", covariant=True)
_M = TypeVar("_M")
_Summarizer: TypeAlias = Callable[[str], str] | Callable[[str], Awaitable[str]]

@final
class Rendition:
    """Another, smaller way to show an item."""

    def __new__(
        cls, text: str, fidelity: float | None = None, *, tokens: int | None = None, name: str | None = None
    ) -> Self:
        """Make a rendition.

        Args:
            text: What is shown instead; not used where it is blank, or not smaller than the item.
            fidelity: Share of the item's value that is left, between 0 and 1, both excluded. None: by the share of
                the tokens that is left.
            tokens: The count, where it is known.
            name: What reports call it.

        Raises:
            ArgumentError: The fidelity is outside its range.
        """

    @property
    def text(self) -> str:
        """What is shown."""

    @property
    def fidelity(self) -> float | None:
        """Share of the item's value that is left."""

    @property
    def tokens(self) -> int | None:
        """The count that was given."""

    @property
    def name(self) -> str | None:
        """What reports call it."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class ContextItem:
    """One candidate for the window; frozen, and it keeps its own count for each tokenizer that met it."""

    def __new__(
        cls,
        type: str,  # noqa: A002 (the published field)
        content: str | list[Any] | None,
        position: int,
        metadata: Mapping[str, Any] | None = None,
        turn_index: int = 0,
        relevance_score: float = 1.0,
        required: bool | None = None,
        group: str | None = None,
        renditions: Iterable[str | tuple[str, float] | Rendition] | None = None,
        tokens: int | None = None,
    ) -> Self:
        """Make an item.

        Args:
            type: One of `PRIORITY_WEIGHTS`, or a name of your own: it weighs 0.1, with a warning for a near miss.
            content: Text, or a list of texts and of mappings with a "text", copied. None or blank: dropped as "empty".
            position: Place in the conversation; ties keep their order.
            metadata: Notes of yours; copied.
            turn_index: The turn it belongs to, for recency.
            relevance_score: Finite, at least 0.
            required: Whether it must be in the window; None: by the weight of its type (0.9 and more).
            group: Items of one group are in the window together or not at all.
            renditions: Smaller ways to show it; at most one of all is chosen.
            tokens: The count, where it is known; used as it is.

        Raises:
            ArgumentError: A value is outside its range.
        """

    @property
    def type(self) -> str:
        """The type."""

    @property
    def content(self) -> Any:
        """The content, as it was given."""

    @property
    def position(self) -> int:
        """Place in the conversation."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Notes of the caller; this item's own copy."""

    @property
    def turn_index(self) -> int:
        """The turn it belongs to."""

    @property
    def relevance_score(self) -> float:
        """How relevant it is, at least 0."""

    @property
    def required(self) -> bool | None:
        """Whether it must be in the window."""

    @property
    def group(self) -> str | None:
        """What it lives or dies with."""

    @property
    def renditions(self) -> tuple[Rendition, ...]:
        """Smaller ways to show it."""

    @property
    def tokens(self) -> int | None:
        """The count that was given."""

    def replace(self, **changes: Any) -> ContextItem:
        """Return a copy with some fields changed; a new content forgets a count that was given for the old one."""

    def __copy__(self) -> Self: ...
    def __replace__(self, /, **changes: Any) -> ContextItem: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

def _rendition(text: str, fidelity: float | None, tokens: int | None, name: str | None) -> Rendition:
    """Rebuild a pickled rendition."""

@final
class PackResult(Sequence[_T_co]):
    """What is in the window, in conversation order, and what became of every input."""

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> _T_co: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[_T_co, ...]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[_T_co]: ...
    def __class_getitem__(cls, _item: Any) -> type[Self]: ...
    def index(self, value: Any, start: int = 0, stop: int = ...) -> int: ...
    def count(self, value: Any) -> int: ...
    @property
    def messages(self) -> list[_T_co]:
        """What is in the window, in the format that came in, ready to send."""

    @property
    def system(self) -> Any:
        """The system prompt where it was given beside the messages; None else."""

    @property
    def tools(self) -> list[Any] | None:
        """The tool schemas in the window, in the format that came in; None where none were given.

        Empty where not one fits, or none came in: leave the argument out of the request then, providers refuse an empty list.
        """

    @property
    def memo(self) -> str | None:
        """What a stateless worker passes as `previous` to the next pack of this conversation."""

    @property
    def n_lasting(self) -> int | None:
        """How many leading messages the next stable window begins with too, unless it is cut; None for items.

        They are all that come before documents and quotes, which are there for this turn alone. A cache breakpoint belongs
        at the last of them.
        """

    @property
    def tokens(self) -> int:
        """Tokens of the whole request."""

    @property
    def budget(self) -> int:
        """Tokens that were available."""

    @property
    def value(self) -> float:
        """Total value of what is in: of each group priority x tokens^alpha x fidelity."""

    @property
    def bound(self) -> float:
        """No choice among the same candidates is worth more; equal to `value` where the choice is proven best.

        For the greedy strategy it is worked out when it is first asked for.
        """

    @property
    def kept(self) -> tuple[Kept, ...]:
        """What is in: source, index, rendition, tokens."""

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """What is not: source, index, tokens, reason."""

    def explain(self) -> str:
        """Return a table a person can read: the budget, then every input with its fate, tokens and first words."""

class Packer:
    """The native part of `ContextWindowPacker`."""

    def __new__(
        cls,
        max_tokens: int,
        tokenizer: Tokenizer | None = None,
        *,
        output_reserve: int | None = None,
        strategy: str = "optimal",
        weights: Mapping[str, float] | None = None,
        recency: Recency | None = None,
        summarizer: _Summarizer | None = None,
        late_summary: bool = True,
        alpha: float = ...,
        overhead: Mapping[str, int | str] | None = None,
        item_overhead: int = 0,
        tools_share: float = 0.25,
        tool_overhead: tuple[int, int] | None = None,
        templates: Mapping[str, str] | None = None,
        low_water: float = 0.5,
        recall: float = 0.25,
        tuning: Mapping[str, float] | None = None,
        max_states: int | None = None,
        deadline_s: float | None = None,
        cache_bytes: int = ...,
    ) -> Self:
        """Make a packer.

        Args:
            max_tokens: Tokens of the model's window, input and output.
            tokenizer: What counts; o200k_base by default. Its margin makes the budget smaller.
            output_reserve: Tokens kept free for the answer.
            strategy: "optimal" (largest total value, proven), "greedy" (the textbook rule) or "stable" (given the
                previous result, what was sent before is sent again as long as it fits, for prompt caches; what no
                longer fits is cut to `low_water`, nothing that was shortened or dropped comes back, and the budget is
                not promised to be full); all deterministic.
            weights: Weights of item types, over `PRIORITY_WEIGHTS`; types of 0.9 and more are required.
            recency: How worth fades; `Recency.relative(2.0)` by default.
            summarizer: Text in, summary out, for the older history that the greedy strategy had to drop. None: a
                built-in one that picks sentences. An async one needs `apack` or `apack_messages`.
            late_summary: Whether the greedy strategy summarises dropped older history into what is left, if that is
                more than 200 tokens.
            alpha: Exponent of the tokens in the value of a group; 0 is the textbook rule, 1 pays for length in full;
                at most 8.
            overhead: What is counted besides texts, as far as it differs: "per_message" 3, "per_name" 1,
                "per_request" 3, "per_call" 3, "per_part" 0, and the media figures; "image" takes tokens for each image
                or a format's name.
            item_overhead: Tokens that each item of `pack` costs besides its text, such as the framing of a message.
            tools_share: Share of what the required messages leave that tools may take, 0 to 1; what they do not take
                goes to the messages, and the other way round.
            tool_overhead: Tokens once for any tools and for each tool, besides its JSON; (12, 7) by default.
            templates: Texts around what is not a message: "documents" with {documents}, "document" with {index} and
                {document}, "summary" with {summary}, "recalled" with {recalled}. Where a tag closes a document, that tag
                within its text is written with "&lt;", so that no document ends itself.
            low_water: Share of the budget that a stable window is cut to once it is full; a first window, which follows
                none, is cut to halfway between that and the budget.
            recall: Share of the budget that a stable window may spend on messages it dropped and the current turn asks
                for (`query`, `relevance`): they are quoted whole in one user message before that turn, in what room there
                is, and are gone with it, so that a prompt cache loses nothing but their tokens. Not while calls of tools
                are in the window: over many steps they would be paid again and again. 0 for none.
            tuning: Constants of what a message of a conversation is worth, over the defaults that were chosen by evidence
                recall: "recency_floor", "related_recency_floor", "relevance_floor", "information", "fidelity",
                "fidelity_power", "fusion", "nearness", "power", "near", "tail", "reach"; for those who measure (`python -m
                benches.tune_packing`).
            max_states: Limit of the exact search, deterministic; past it `bound` exceeds `value`.
            deadline_s: Limit of the exact search in seconds; what comes back then depends on the machine.
            cache_bytes: What may be remembered of messages that were packed, so that a grown conversation costs its new
                messages.

        Raises:
            ArgumentError: An argument is outside its range; the message says which and what is allowed.
            UnknownNameError: There is no such strategy.
        """

    @property
    def max_tokens(self) -> int:
        """Tokens of the window, input and output."""

    @property
    def output_reserve(self) -> int:
        """Tokens kept free for the answer."""

    @property
    def budget(self) -> int:
        """Tokens that a request may have, as this tokenizer counts them."""

    @property
    def strategy(self) -> str:
        """How the packer chooses."""

    @property
    def summarizer(self) -> _Summarizer | None:
        """The caller's summarizer."""

    def pack(self, items: Iterable[ContextItem]) -> PackResult[ContextItem]:
        """Choose items within the budget: required ones first, then what is worth its tokens, in conversation order.

        Raises:
            RequiredOverflowError: The required items do not fit, even in their smallest renditions.
            ArgumentError: Something is not a `ContextItem`.
            SummarizerError: The summarizer did not give text.
        """

    def pack_many(self, lists: Iterable[Iterable[ContextItem]]) -> list[PackResult[ContextItem]]:
        """Pack many lists as `pack` does, on all cores with the GIL released.

        Raises:
            RequiredOverflowError: The required items of one of them do not fit.
        """

    def pack_messages(
        self,
        messages: Sequence[_M],
        system: Any = None,
        *,
        tools: Sequence[Any] | ToolSet | None = None,
        documents: Iterable[str | Mapping[str, Any] | ContextItem] | None = None,
        summary: str | None = None,
        query: str | None = None,
        relevance: Sequence[float] | None = None,
        previous: PackResult[Any] | str | None = None,
        start_on_user: bool = False,
        format: Literal["openai", "responses", "anthropic"] | None = None,  # noqa: A002 (the word for it)
        used_tools: Sequence[str] | None = None,
    ) -> PackResult[_M]:
        """Fit a conversation into the budget, counted on the request as it is sent.

        Everything that fits comes back as it came, the same objects; empty messages and orphans are left out first. Else
        the system prompt, the last user message, the last group (calls with their results) and what the provider itself
        has compacted last must be in, with tool results shortened where they are too large; of the rest what is worth its
        tokens is in, some of it shortened.
        Calls and their results are in together or not at all.

        Args:
            messages: OpenAI chat messages, OpenAI Responses items or Anthropic messages.
            system: A system prompt beside the messages; always in.
            tools: Tool schemas in any of four formats, or a `ToolSet`; fitted to what they may take, those that calls
                name first.
            documents: What retrieval found: texts, or mappings with a "text" (or "content") and perhaps a
                "relevance_score". What is chosen becomes one user message before the current turn.
            summary: A summary of what came before; becomes one system message after the system prompt, or is added to
                `system` where that stands beside the messages.
            query: What the history should be relevant to; None: the current turn.
            relevance: One score per message, such as an embedder's, at least 0; what lies above their mean
                is added to the lexical score, whatever their scale, and what is far from it counts for more, or less.
            previous: The result of the last pack of this conversation, or its memo; for strategy "stable".
            start_on_user: Whether the first message after the system prompt must be a user's, where there is one.
            format: The format of the messages; None: it is found from them.
            used_tools: Names of tools that count as used, besides those that calls name.

        Raises:
            RequiredOverflowError: What must be in does not fit, even in its smallest allowed form.
            MessageError: A message is not of its format; which, where, and why.
            ToolSchemaError: A tool schema cannot be read.
            SummarizerError: The summarizer did not give text.
            ArgumentError: An argument is outside its range.
        """

    def calibrate(self, usage: Iterable[tuple[Sequence[Any] | int, int]]) -> Calibration:
        """Fit margin and overhead to billed token counts by least squares; the packer counts by them from then on.

        billed = (1 + margin) x (counted + what no request shows). A fit that would make the budget larger than the count
        does is not taken: the margin is at least 0.

        Args:
            usage: Pairs of messages (or of their tokens as this packer counts them) and the input tokens billed for them.

        Raises:
            ArgumentError: There is no pair, or one of them counts nothing.
        """

    def _begin(self, items: Iterable[ContextItem]) -> Pending[ContextItem]: ...
    def _begin_messages(
        self,
        messages: Sequence[_M],
        system: Any = None,
        *,
        tools: Sequence[Any] | ToolSet | None = None,
        documents: Iterable[str | Mapping[str, Any] | ContextItem] | None = None,
        summary: str | None = None,
        query: str | None = None,
        relevance: Sequence[float] | None = None,
        previous: PackResult[Any] | str | None = None,
        start_on_user: bool = False,
        format: Literal["openai", "responses", "anthropic"] | None = None,  # noqa: A002 (the word for it)
        used_tools: Sequence[str] | None = None,
    ) -> Pending[_M]: ...

@final
class Pending(Generic[_T_co]):
    """A pack that waits for its summary."""

    @property
    def text(self) -> str | None:
        """What the summarizer is to be given; None where there is nothing to summarise."""

    def finish(self, summary: str | None) -> PackResult[_T_co]:
        """Finish, once; None: with the built-in summary."""

# -- shorten: for tests and benches; the packer shortens in Rust ---------------------------------------------------------

_Form: TypeAlias = tuple[str, int] | None
"""Text and tokens, or None where there is no such form."""

def _shorten_head_tail(text: str, target: int, tokenizer: Tokenizer) -> _Form:
    """Head and tail in at most `target` tokens, the cut marked with its size."""

def _shorten_shortened(text: str, tokenizer: Tokenizer) -> _Form:
    """About a third of a long text, as the packer makes it."""

def _shorten_summary(text: str, tokenizer: Tokenizer) -> _Form:
    """About a tenth of a long text, as the packer makes it."""

# -- knapsack: for tests and benches; the packer calls the solver in Rust ------------------------------------------------

_Choice: TypeAlias = tuple[list[int | None], int, int, int, int]
"""picks (index of the chosen candidate of each class, or None), weight, value, bound, states."""

def _knapsack_zero_one(
    weights: Sequence[int],
    values: Sequence[int],
    budget: int,
    *,
    max_states: int | None = None,
    deadline_s: float | None = None,
) -> _Choice:
    """Take candidates so that their weight is at most `budget` and their value is largest.

    Exact where bound == value; past a limit the best so far and a proven bound. 0 <= figures < 2**64, values summing
    to at most 2**53, and so the budget unless it holds everything.

    Raises:
        ArgumentError: The lengths differ, a sum is too large, or the deadline is not a number of at least 0.
    """

def _knapsack_choices(
    classes: Sequence[Sequence[tuple[int, int]]],
    budget: int,
    *,
    max_states: int | None = None,
    deadline_s: float | None = None,
) -> _Choice:
    """As `_knapsack_zero_one`, choosing at most one (weight, value) of each class; the fullest stands first."""

def _knapsack_greedy(classes: Sequence[Sequence[tuple[int, int]]], budget: int) -> _Choice:
    """Take classes by value per token of their first candidate; what does not fit is tried smaller, else skipped."""

# --- msgpack ---------------------------------------------------------------------------------------------------------

MSGPACK_MAX_DEPTH: int
MSGPACK_MAX_UNSALTED_KEYS: int
MSGPACK_MIN_PACKED_FLOATS: int

def msgpack_encode(value: Any, *, path: str = "", depth: int = 0) -> bytes:
    """Encode a value in MessagePack, so that it comes back equal and of the same type.

    Taken are exactly None, bool, int of any size, float, str (NUL and lone surrogates too), bytes, bytearray, list, tuple,
    dict with keys of any of these, set, frozenset, datetime, date, time, timedelta, Decimal, UUID, array.array and
    numpy.ndarray of numbers; no subclasses, and no method of the caller's is called. What MessagePack lacks travels in the
    extension types listed in rust/msgpack/marker.rs. Lists of 16 floats and more are packed.

    Args:
        value: What to encode.
        path: What paths in errors begin with.
        depth: How many containers the value is to stand in, towards `MSGPACK_MAX_DEPTH`.

    Raises:
        EncodeError: `path` names the value that cannot be stored, `reason` says why.
    """

def msgpack_decode(data: bytes, *, start: int = 0, frozen: bool = False, frozen_keys: Sequence[str] = ...) -> Any:
    """Decode what `msgpack_encode` wrote, or any MessagePack without foreign extension types.

    Hostile bytes end in an error: no declared size is believed beyond the bytes that are left, depth ends at
    `MSGPACK_MAX_DEPTH`, duplicate keys and trailing bytes are refused, and so are more than `MSGPACK_MAX_UNSALTED_KEYS`
    keys of one map whose hashes can be made to collide.

    Args:
        data: The document.
        start: Where in `data` it begins.
        frozen: Make lists, dicts and sets read-only.
        frozen_keys: Make read-only what stands under these keys of the outermost map.

    Raises:
        DecodeError: `offset` is the byte of the fault.
    """

@final
class Unread:
    """An array of a document that was stepped over: it is well-formed, and its values are not yet made."""

    def __len__(self) -> int: ...
    def read(self) -> list[Any]:
        """Decode the array, read-only."""
    def extend(self, target: list[Any]) -> None:
        """Append the elements, read-only, to a list."""
    def update(self, target: dict[Any, Any]) -> None:
        """Put the elements, pairs of a key and a value, into a dict, the values read-only; the last of a key stays."""

@final
class Entries:
    """The entries of one kind in a log as they were encoded, all of them or the last ones.

    Args:
        loaded: What the first entries are.
    """

    def __new__(cls, loaded: Unread | None = None) -> Entries: ...
    def __len__(self) -> int:
        """How many entries there are, at hand or not."""
    @property
    def is_whole(self) -> bool:
        """Whether all are at hand."""
    def append(self, entry: bytes) -> None:
        """Add an entry."""
    def get(self, at: int) -> bytes | None:
        """Return an entry, None where it is not at hand by itself."""
    def replace(self, at: int, entry: bytes) -> None:
        """Put another entry in the place of one."""
    def forget(self, n: int) -> None:
        """Keep those from the `n`-th on only."""
    def forget_all(self, n: int) -> None:
        """Keep none of what are now `n` entries."""

@final
class LastLog:
    """Whether somebody asked for the log of the state that was loaded last."""

    is_read: bool
    def __new__(cls) -> LastLog: ...

class LogView:
    """A field of a state that is one of the views on its log, made when somebody asks for the first of them.

    Args:
        at: Which of the `_log_views` of a state; of the class it is ().
        last: Where it is noted that somebody asked for views that were made when the state was loaded.
    """

    def __new__(cls, at: int, last: LastLog) -> Self: ...
    def __get__(self, state: object, owner: type | None = None, /) -> Any: ...

@final
class StateReader:
    """Makes a state of a document in one call.

    Args:
        state: The class of states, whose fields are in their `__dict__`.
        messages: The class of messages, a kind of list.
        results: The class of step results, a kind of dict.
        marks: The class of what both note their changes in, as `_marks`.
        names: The fields of a state without its log, in the order in which documents have them.
        schema: The version of the documents.
        last: Whether to decode the log too, for which somebody will ask; false after each state.
    """

    def __new__(
        cls,
        state: type,
        messages: type[list[Any]],
        results: type[dict[Any, Any]],
        marks: type,
        *,
        names: Sequence[str],
        schema: int,
        last: LastLog,
    ) -> StateReader: ...
    def read(self, data: object) -> Any:
        """Read a document.

        The log of a state is under `_unread`: its messages, its step results, both `Unread`, and their order, None where all
        messages come first. Where it was decoded too, views and marks are under `_made`.

        `Unread` are arrays, of step results only those of pairs, that hold nothing but nil, booleans, numbers, strings, bytes,
        arrays and maps with few keys, all strings: what cannot fail to decode later. All else is decoded at once.

        Returns:
            A state; a dict, as of `msgpack_decode` with a read-only log, of a document that is not laid out as ours are, holds
            what is rare in its log or is not sound; None of what is no `bytes` or begins with no map.

        Raises:
            DecodeError: Of what begins with a map, but cannot be decoded.
        """

def msgpack_decode_log(
    entries: Iterable[Sequence[Any] | bytes], header: bytes | None, other: Callable[[Any, Any, int], Any]
) -> tuple[list[Any], list[Any], bytes]:
    """Decode the entries of a stored log, read-only.

    Args:
        entries: Of each (kind, bytes, ...), or kind, NUL and bytes in one.
        header: What an entry begins with that is decoded from there on; None for none.
        other: Called with kind, bytes and number of any other entry, and of a step result that is none; returns its value.

    Returns:
        The messages, the step results, and one byte per entry, 0 for a message and 1 for a step result.
    """

def msgpack_encode_state(
    state: object,
    fields: dict[str, Any],
    names: tuple[str, ...],
    schema: int,
    messages: Unread | Entries | list[Any],
    step_results: Unread | Entries | list[Any],
    kinds: bytes | bytearray | None,
) -> bytes | None:
    """Encode a whole state in one call; None where an id, or the type of a field, is not as it must be.

    Args:
        state: What to ask for a field that is not in `fields`.
        fields: Values of fields.
        names: The fields of a state without its log.
        schema: The version of the document.
        messages: The messages, encoded or not.
        step_results: The step results, likewise, pairs of step and result.
        kinds: One byte per entry, 0 for a message and 1 for a step result; None where all messages come first.

    Raises:
        EncodeError: `path` names the value that cannot be stored, `reason` says why.
    """

def keys_collide(keys: Iterable[Any]) -> bool:
    """Return whether so many of at least 64 keys have one hash that an attacker chose them; `str` and `bytes` do not count."""

def json_depth(text: bytes) -> int:
    """Return how deep a JSON text nests, in one pass: for parsers that recurse."""

# -- tools -------------------------------------------------------------------------------------------------------------

@final
class ToolSet:
    """Tools read and checked once, to be passed in place of the list again and again.

    Costs nothing to fit what was fitted before, where a list must be compared with what is known (1 us a tool). The set
    does not see later changes to the objects it was made of.
    """

    def __new__(cls, tools: Sequence[Any] | ToolSet) -> Self:
        """Read tools.

        Args:
            tools: In any of the formats OpenAI (`function`), OpenAI Responses, Anthropic (`input_schema`), MCP
                (`inputSchema`) or bare `{"name": ...}`, mixed as you like. Other tools with a `type` (web search, computer
                use) are kept whole or left out.

        Raises:
            ToolSchemaError: A tool is no object, has no name, or holds what is no JSON; it says which and where.
        """

    @property
    def names(self) -> list[str]:
        """The name of each tool, in order."""

    def scores(self, query: str) -> list[float]:
        """Relevance of each tool to the query: BM25 over names (three times), descriptions, parameters and enums."""

    def __len__(self) -> int: ...

@final
class ToolsResult:
    """The tools that fit."""

    @property
    def tools(self) -> list[Any]:
        """In the order and format they came in. Those in full are the objects that were given; the others are new."""
    @property
    def tokens(self) -> int:
        """What they cost: 12 once, and for each tool 7 and the tokens of its compact JSON; 0 for no tools."""
    @property
    def budget(self) -> int:
        """What they were allowed to cost."""
    @property
    def kept(self) -> tuple[Kept, ...]:
        """What is in: index into the tools given, "full" or "shortened", and tokens."""
    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """What is not: index, tokens in full, and "over_budget" or "too_large"."""

def fit_tools(
    tools: Sequence[Any] | ToolSet,
    budget: int,
    *,
    query: str | None = None,
    used: Iterable[str] | None = None,
    tokenizer: Tokenizer | None = None,
) -> ToolsResult:
    """Fit tool schemas into a budget of tokens.

    What fits comes back unchanged. Else used tools stay, if need be in their smallest form; then as many of those that
    match the query as fit, best first; what is left makes them fuller, and then takes in the others. A shorter form keeps
    names, types, required parameters, enums and reachable definitions; descriptions are cut at a sentence's end or dropped.

    Args:
        tools: See `ToolSet`.
        budget: Tokens, at least 0. An inexact tokenizer's margin is taken off.
        query: What the tools are wanted for, such as the user's last message; without it, earlier ones are better.
        used: Names that calls in the history name.
        tokenizer: o200k_base if none is given.

    Raises:
        ArgumentError: The budget is negative, or the tools are no list.
        ToolSchemaError: A tool cannot be read; `tool`, `path` and `reason` say which, where and why.
        RequiredOverflowError: The used tools do not fit even in their smallest form; `items` has the size of each.
    """
