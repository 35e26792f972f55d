"""The unified request, its parts, and the context of its response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter, is_
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct, structs

from streamnorm._core.blocks import (
    CacheMark,
    InputBlock,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.json import is_object
from streamnorm._core.losses import Losses
from streamnorm._core.tools import AnyTool, ToolChoice

Part = TypeVar("Part")
S = TypeVar("S", bound=Struct)

Role: TypeAlias = Literal["user", "assistant", "system", "developer"]


class Source(Struct, frozen=True):
    """The JSON that a part of a request was decoded from.

    An unchanged part that goes to the same dialect is written as this JSON, so that its spelling
    stays.

    Attributes:
        dialect: Name of the dialect.
        value: The decoded JSON.
        part: The part as it was decoded, without its source.
        cleaned: Whether lone surrogates were replaced in the body of a request.
    """

    dialect: str
    value: Any
    part: Any
    cleaned: bool = False


class InputMessage(Struct, frozen=True, omit_defaults=True):
    """One message of a request.

    Attributes:
        role: Role of the speaker.
        blocks: The content, in order.  Results of tools are blocks of user messages.
        name: Name of the participant.
        extra: Other fields, by dialect.
        source: The `Source` of the message; None if it was not decoded.
    """

    role: Role
    blocks: tuple[InputBlock, ...] = ()
    name: str | None = None
    extra: dict[str, dict[str, Any]] | None = None
    source: Any = None

    @property
    def text(self) -> str:
        """The text of all `Text` blocks, concatenated."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of this message, in order."""
        return tuple([block for block in self.blocks if isinstance(block, ToolCall)])

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The results in this message, in order."""
        return tuple([block for block in self.blocks if isinstance(block, ToolResult)])


class OutputFormat(Struct, frozen=True, omit_defaults=True):
    """The response format that a request asks for.

    Attributes:
        kind: `text`, any JSON object, or JSON that follows `schema`.
        schema: JSON Schema.
        name: Name of the schema; None where the vendor has none.
        description: Purpose of the schema.
        strict: Whether the schema is enforced; None = not said.
        extra: Other fields, by dialect.
    """

    kind: Literal["text", "json_object", "json_schema"]
    schema: dict[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None
    extra: dict[str, dict[str, Any]] | None = None


class ReasoningOptions(Struct, frozen=True, omit_defaults=True):
    """How much the model reasons, and how much of the reasoning the response shows.

    Attributes:
        mode: `off`; `budget`: up to `budget_tokens`; `adaptive`: the model decides; None = not
            said.
        effort: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`; None = not said.
        budget_tokens: Bound on the tokens of reasoning.
        show: Detail of the reasoning in the response: `none`, `auto`, `concise`, `detailed`;
            None = not said.
        extra: Other fields, by dialect.
    """

    mode: Literal["off", "budget", "adaptive"] | None = None
    effort: str | None = None
    budget_tokens: int | None = None
    show: str | None = None
    extra: dict[str, dict[str, Any]] | None = None


class Request(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A request to a model, independent of the provider's dialect.

    None and () mean that the client did not say; the vendor's default then applies.

    Attributes:
        model: Name of the model; "" where the URL or the server names it.
        system: Instructions in the dialect's field for them.  Instructions in system and
            developer messages stay in `messages`.
        messages: The conversation, oldest first.
        tools: Tools that the model may call, in order.
        tool_choice: Restriction of the calls; None = none.
        parallel_tool_calls: Whether one answer may have several calls.
        max_tokens: Bound on the tokens of the answer, reasoning included.
        stop: Texts that end the answer.
        temperature: 0 to 2.
        top_p: 0 to 1.
        top_k: Number of most likely tokens to sample from.
        seed: Seed of the sampling.
        frequency_penalty: -2 to 2.
        presence_penalty: -2 to 2.
        logit_bias: Bias by token, as the Chat Completions API has it.
        logprobs: Whether the answer has the probabilities of its tokens.
        top_logprobs: Number of alternatives with them.
        choices: Number of answers.
        output: Response format.
        verbosity: `low`, `medium` or `high`.
        reasoning: Reasoning options.
        user: Opaque identifier of the end user.
        safety_identifier: Opaque identifier of the end user, for the detection of abuse.
        metadata: Labels of the request.
        service_tier: Class of processing, in OpenAI's words.
        cache: Cache mark at the end of the request, which the provider places.
        cache_key: Name of the cache to use, as OpenAI has it.
        compact_at_tokens: Input tokens beyond which the provider compacts the conversation.
        stream: Whether the answer is streamed.
        store: Whether the provider stores the answer.
        state: Fields that refer to state of the provider, such as `previous_response_id`.
        betas: Names of betas, as the `anthropic-beta` header has them.
        extra: Other fields, by dialect.
        source: The `Source` of the request; None if it was not decoded.
    """

    model: str = ""
    system: tuple[Text, ...] = ()
    messages: tuple[InputMessage, ...] = ()
    tools: tuple[AnyTool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    temperature: int | float | None = None
    top_p: int | float | None = None
    top_k: int | None = None
    seed: int | None = None
    frequency_penalty: int | float | None = None
    presence_penalty: int | float | None = None
    logit_bias: dict[str, int | float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    choices: int | None = None
    output: OutputFormat | None = None
    verbosity: str | None = None
    reasoning: ReasoningOptions | None = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: dict[str, str] | None = None
    service_tier: str | None = None
    cache: CacheMark | None = None
    cache_key: str | None = None
    compact_at_tokens: int | None = None
    stream: bool | None = None
    store: bool | None = None
    state: dict[str, Any] | None = None
    betas: tuple[str, ...] = ()
    extra: dict[str, dict[str, Any]] | None = None
    source: Any = None


def unchanged_source(part: InputMessage | Request | AnyTool, dialect: str, *, but: str = "") -> Any:
    """Return the JSON that a part was decoded from, if the part can be written as this JSON.

    None if the part came from another dialect, or if a field was replaced since.

    Args:
        part: The part.
        dialect: Name of the dialect that is written.
        but: Name of a field that may have been replaced.
    """
    source = part.source
    if not isinstance(source, Source) or source.dialect != dialect:
        return None
    fields_of = _fields_getter(type(part), but)
    return source.value if all(map(is_, fields_of(part), fields_of(source.part))) else None


def is_unchanged(request: Request) -> bool:
    """Return whether a request, but for its model, is as it was decoded from JSON."""
    source = request.source
    return isinstance(source, Source) and (
        unchanged_source(request, source.dialect, but="model") is not None
    )


@cache
def _fields_getter(kind: type[Struct], but: str) -> Callable[[Any], tuple[Any, ...]]:
    """Return a getter of all fields of a part except `source` and the field named `but`."""
    return attrgetter(*(name for name in kind.__struct_fields__ if name not in ("source", but)))


def request_source(request: Request, dialect: str) -> dict[str, Any] | None:
    """Return the body that a request was decoded from, with its current model.

    None if the request came from another dialect, or if another field was replaced since.
    """
    body: dict[str, Any] | None = unchanged_source(request, dialect, but="model")
    if body is None or request.model == (body.get("model") or ""):
        return body
    if request.model:
        return {**body, "model": request.model}
    return {name: value for name, value in body.items() if name != "model"}


def is_same_dialect(part: InputMessage | Request | AnyTool, dialect: str) -> bool:
    """Return whether a part was decoded from a dialect, even if it was changed later."""
    source = part.source
    return isinstance(source, Source) and source.dialect == dialect


def is_all_same_dialect(request: Request, dialect: str) -> bool:
    """Return whether a request and all its messages were decoded from a dialect."""
    return is_same_dialect(request, dialect) and all(
        is_same_dialect(message, dialect) for message in request.messages
    )


def replace_parts(request: Request, **parts: object) -> Request:
    """Return a request with some fields replaced; the same object if nothing changes."""
    if all(part is getattr(request, name) for name, part in parts.items()):
        return request
    return structs.replace(request, **parts)


def same_parts(before: tuple[Part, ...], after: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return `before` if `after` holds the same objects, else `after`."""
    if len(before) == len(after) and all(map(is_, before, after)):
        return before
    return after


def has_cache_marks(request: Request) -> bool:
    """Return whether a request, or a part of it, has a cache mark."""
    return (
        request.cache is not None
        or any(part.cache is not None for part in (*request.tools, *request.system))
        or any(is_marked(block) for message in request.messages for block in message.blocks)
    )


def is_marked(block: InputBlock) -> bool:
    """Return whether a block, or a block in a result's content, has a cache mark."""
    if block.cache is not None:
        return True
    if type(block) is ToolResult:
        return any(item.cache is not None for item in block.content)
    return False


def drop_foreign_fields(part: S, dialect: str, losses: Losses, where: str) -> S:
    """Return a part without `extra` fields of other dialects; count each as lost.

    Args:
        part: A request, or a part of one, with a field `extra`.
        dialect: Name of the target dialect.
        losses: Counter of the dropped fields; nulls are not counted.
        where: Field of the request that holds the part, for the losses.
    """
    extra: dict[str, dict[str, Any]] | None = getattr(part, "extra")  # noqa: B009 - of any struct
    if not extra or (len(extra) == 1 and dialect in extra):
        return part
    for other, fields in extra.items():
        if other != dialect:
            for name, value in fields.items():
                if not _is_null(value):
                    losses.add(name, where, "dropped")
    return structs.replace(part, extra={dialect: extra[dialect]} if dialect in extra else None)


def _is_null(value: object) -> bool:
    """Return whether an unknown field is null, or an object with only null fields."""
    if is_object(value):
        return bool(value) and all(item is None for item in value.values())
    return value is None


class ToolName(NamedTuple):
    """The client's name and kind of a tool.

    Attributes:
        name: Name of the tool.
        namespace: Namespace of the tool; None if it has none.
        is_custom: Whether the tool takes free text.
        properties: The client's names of properties, by those that the provider was given; None
            if none was changed.
    """

    name: str
    namespace: str | None = None
    is_custom: bool = False
    properties: dict[str, str] | None = None


class Reply(Struct, frozen=True, omit_defaults=True):
    """Context of a response: tool names, ids and fields to restore for the client.

    `encode_request` returns it with the body; pass it on to `Transcoder`, `encode_message` or
    `Conversation.append`.

    Attributes:
        tools: The client's tools whose name, kind or properties were changed, by the name that
            the provider was given.
        response: Fields of the response object to write in place of the provider's: its `id`,
            `store`, and fields that echo the request.  Empty for dialects whose responses do
            not echo the request.
        id: Id of the message, for a provider whose messages name none.
        model: Name of its model, likewise.
        calls: Ids of the calls in the request's history, none of which a new call gets, and whether
            each belongs to the message that the answer continues.  None if unknown; ids that pass
            in the client's own dialect do not change.
        hides_account: Whether the errors of a stream are written without what the provider says
            of its key and account, as a gateway does for its pages.
    """

    tools: dict[str, ToolName] = {}
    response: dict[str, Any] = {}
    id: str = ""
    model: str = ""
    calls: dict[str, bool] | None = None
    hides_account: bool = False


def calls_of(messages: Sequence[InputMessage]) -> dict[str, bool]:
    """Map the id of each tool call in a history to whether the call is in the last answer."""
    calls: dict[str, bool] = {}
    is_last = True
    for message in reversed(messages):
        is_last = is_last and _belongs_to_answer(message)
        for block in message.blocks:
            if isinstance(block, ToolCall | ServerToolCall):
                calls.setdefault(block.id, is_last)
    return calls


def _belongs_to_answer(message: InputMessage) -> bool:
    """Return whether a message is the assistant's, or holds only tool results."""
    if message.role == "assistant":
        return True
    return bool(message.blocks) and all(isinstance(each, ToolResult) for each in message.blocks)
