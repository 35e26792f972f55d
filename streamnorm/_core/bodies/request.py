"""The request of any provider as one value."""

from __future__ import annotations

from operator import is_
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct, structs

from streamnorm._core.blocks import CacheMark, InputBlock, Text, ToolCall, ToolResult
from streamnorm._core.tools import AnyTool, ToolChoice

Part = TypeVar("Part")

Role: TypeAlias = Literal["user", "assistant", "system", "developer"]


class Source(Struct, frozen=True):
    """What a part of a request was decoded from.

    It is written again, spelt as it was, where the part goes to the same dialect unchanged.

    Attributes:
        dialect: The dialect.
        value: The decoded JSON.
        part: The part itself, without its source.
    """

    dialect: str
    value: Any
    part: Any


class InputMessage(Struct, frozen=True, omit_defaults=True):
    """One message of a request.

    Attributes:
        role: Who speaks.
        blocks: The content, in order.  Results of tools are blocks of user messages.
        name: Name of the participant.
        extra: Fields that have no place above, by dialect.
        source: What the message was decoded from.
    """

    role: Role
    blocks: tuple[InputBlock, ...] = ()
    name: str | None = None
    extra: dict[str, dict[str, Any]] | None = None
    source: Any = None

    @property
    def text(self) -> str:
        """All `Text` blocks, one after the other."""
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
    """The form that the answer must have.

    Attributes:
        kind: `text`, any JSON object, or JSON that follows `schema`.
        schema: JSON Schema.
        name: Name of the schema; None where the vendor has none.
        description: What the schema is for.
        strict: Whether the schema is enforced; None = not said.
        extra: Fields that have no place above, by dialect.
    """

    kind: Literal["text", "json_object", "json_schema"]
    schema: dict[str, Any] | None = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None
    extra: dict[str, dict[str, Any]] | None = None


class ReasoningOptions(Struct, frozen=True, omit_defaults=True):
    """How much the model reasons, and what it shows of it.

    Attributes:
        mode: `off`; `budget`: up to `budget_tokens`; `adaptive`: as the model sees fit; None
            = not said.
        effort: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`; None = not said.
        budget_tokens: Tokens to reason with.
        show: What of the reasoning the answer shows: `none`, `auto`, `concise`, `detailed`;
            None = not said.
        extra: Fields that have no place above, by dialect.
    """

    mode: Literal["off", "budget", "adaptive"] | None = None
    effort: str | None = None
    budget_tokens: int | None = None
    show: str | None = None
    extra: dict[str, dict[str, Any]] | None = None


class Request(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a client asks of a model, in no provider's dialect.

    None and () mean: not said.  Each vendor has its own default then.

    Attributes:
        model: Name of the model; "" where the URL or the server names it.
        system: Instructions in the dialect's field for them.  Those in system and developer
            messages stay in `messages`.
        messages: The conversation, oldest first.
        tools: What the model may call, in order.
        tool_choice: Which of them.
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
        output: Form of the answer.
        verbosity: `low`, `medium` or `high`.
        reasoning: How much the model reasons.
        user: The end user, opaque.
        safety_identifier: The end user, opaque, for the detection of abuse.
        metadata: Labels of the request.
        service_tier: Class of processing, in OpenAI's words.
        cache: Mark at the end of the request, set by the provider.
        cache_key: Name of the cache to use, as OpenAI has it.
        compact_at_tokens: Input tokens beyond which the provider compacts the conversation.
        stream: Whether the answer is streamed.
        store: Whether the provider stores the answer.
        state: What refers to state of the provider, such as `previous_response_id`.
        betas: Names of betas, as the `anthropic-beta` header has them.
        extra: Fields that have no place above, by dialect.
        source: What the request was decoded from.
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
    """Return the JSON that a part was decoded from, or None if it must be written anew.

    It must be written anew if it was changed since, or came from another dialect.

    Args:
        part: The part.
        dialect: The dialect that is written.
        but: Name of a field that may have changed.
    """
    source = part.source
    if not isinstance(source, Source) or source.dialect != dialect:
        return None
    before = source.part
    for name in part.__struct_fields__:
        if name in ("source", but):
            continue
        if getattr(part, name) is not getattr(before, name):
            return None
    return source.value


def request_source(request: Request, dialect: str) -> dict[str, Any] | None:
    """Return the body that a request was decoded from, with the model that it names now.

    None if the request must be written anew: anything but its model was changed since, or it
    came from another dialect.
    """
    body: dict[str, Any] | None = unchanged_source(request, dialect, but="model")
    if body is None or request.model == (body.get("model") or ""):
        return body
    if request.model:
        return {**body, "model": request.model}
    return {name: value for name, value in body.items() if name != "model"}


def is_same_dialect(part: InputMessage | Request | AnyTool, dialect: str) -> bool:
    """Return whether a part was decoded from a dialect, changed since or not."""
    source = part.source
    return isinstance(source, Source) and source.dialect == dialect


def is_all_same_dialect(request: Request, dialect: str) -> bool:
    """Return whether a request and all of its messages were decoded from a dialect."""
    return is_same_dialect(request, dialect) and all(
        is_same_dialect(message, dialect) for message in request.messages
    )


def replace_parts(request: Request, **parts: object) -> Request:
    """Return a request with other parts, or the same one if they are the same objects."""
    if all(part is getattr(request, name) for name, part in parts.items()):
        return request
    return structs.replace(request, **parts)


def same_parts(before: tuple[Part, ...], after: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return `before` if it has the same objects as `after`, else `after`."""
    if len(before) == len(after) and all(map(is_, before, after)):
        return before
    return after


class ToolName(NamedTuple):
    """A tool as the client named it.

    Attributes:
        name: Its name.
        namespace: Its namespace; None if it has none.
        is_custom: Whether it takes free text.
    """

    name: str
    namespace: str | None = None
    is_custom: bool = False


class Reply(Struct, frozen=True, omit_defaults=True):
    """What of the answer is written as the client knows it, and not as the provider sent it.

    Attributes:
        tools: The client's tools whose name or kind was changed, by the name that the
            provider was given.
        response: Fields of the response object, such as `id`, `store` and those that repeat
            the request, in place of the provider's; only dialects whose responses echo the
            request have such fields.
    """

    tools: dict[str, ToolName] = {}
    response: dict[str, Any] = {}
