"""The contract of a dialect's whole bodies: requests, responses, token counts, model lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, structs

from streamnorm._core.blocks import ToolCall
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import require_count
from streamnorm._core.bodies.memo import EncodingMemo
from streamnorm._core.bodies.models import ModelsCodec
from streamnorm._core.bodies.request import InputMessage, ReasoningOptions, Request
from streamnorm._core.bodies.token_count import TokenCount
from streamnorm._core.bodies.tool_calls import ArgumentsPolicy, arguments_object
from streamnorm._core.events import Event
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Losses
from streamnorm._core.messages import Message
from streamnorm._core.tools import AnyTool

T = TypeVar("T")


class ReadContext(Struct, frozen=True):
    """Metadata for the readers of bodies: path, headers, server and limits.

    Attributes:
        path: Path of the request's URL; "" if unknown.
        headers: Headers of the request, names in lower case.
        server: Name of the server that answered; None if unknown.
        limits: Bounds.
    """

    path: str = ""
    headers: Mapping[str, str] = {}
    server: str | None = None
    limits: Limits = Limits()


class WriteContext:
    """Context of the writer of a request: the target, the losses, and the cache of messages.

    Args:
        capabilities: Capabilities of the target, narrowed by its profile.
        losses: Counter of what the body cannot carry.
        arguments: Policy for tool arguments that are no JSON object.
        memo: Cache of a growing history; None if the request is written once.
        named: Whether the target is a named server with profiles, whose rules also apply to
            requests in its own dialect.
    """

    def __init__(
        self,
        capabilities: BodyCapabilities,
        losses: Losses,
        arguments: ArgumentsPolicy = "error",
        memo: EncodingMemo | None = None,
        *,
        named: bool = False,
    ) -> None:
        self.capabilities = capabilities
        self.losses = losses
        self.named = named
        self._arguments: ArgumentsPolicy = arguments
        self._memo = memo

    def arguments_of(self, call: ToolCall, path: str) -> dict[str, Any]:
        """Return the arguments of a call as an object.

        Raises:
            EncodeError: The arguments are no JSON object, and the policy is `error`.
        """
        value: dict[str, Any] = arguments_object(call, self._arguments, self.losses, path)
        return value

    def write_once(self, message: InputMessage, number: int, write: Callable[[], T]) -> T:
        """Return the JSON of a message, from the cache or else from `write`.

        The value must not be changed: later bodies of the same history share it.

        Args:
            message: The message.
            number: Position of the message.
            write: Function that returns the JSON of the message.
        """
        if self._memo is None:
            return write()
        return self._memo.result("written", number, message, self.losses, write)


class Written(Struct, frozen=True):
    """A written request: body, path and headers.

    Attributes:
        body: The JSON object to send.
        path: Path of the endpoint, which holds the model in some dialects.
        headers: Headers that belong to the body, such as betas; no API keys.
    """

    body: dict[str, Any]
    path: str
    headers: dict[str, str] = {}


class CountCodec(Struct, frozen=True, kw_only=True):
    """Reader and writer of token count requests and their responses.

    Readers raise `DecodeError` for a body that is not of the dialect.

    Attributes:
        fields: Fields of a message request that a count request may have; None = all.
        suffix: End of the path, after the path of the message request.
        tokens: Field of the response with the count.
        constants: Fields of every response.
    """

    fields: frozenset[str] | None = None
    suffix: str = ""
    tokens: str = "input_tokens"
    constants: dict[str, Any] = {}

    def read_request(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of the message request that a count request counts."""
        return body

    def read_invocation(self, body: dict[str, Any]) -> bytes | None:
        """Return the body of another operation, if a count request asks for the tokens of one."""
        return None

    def write_request(self, written: Written) -> Written:
        """Return the count request of a written message request with only `fields`."""
        return structs.replace(written, path=written.path + self.suffix)

    def read_count(self, body: dict[str, Any]) -> TokenCount:
        """Return the count in a response."""
        return TokenCount(require_count(body, self.tokens))

    def write_count(self, count: TokenCount) -> dict[str, Any]:
        """Return the response with a count."""
        return {**self.constants, self.tokens: count.input_tokens}


class BodyCodec(Struct, frozen=True, kw_only=True):
    """Reader and writer of the whole bodies of one dialect.

    Readers raise `DecodeError` for a body that is not of the dialect.  Their argument has no
    lone surrogates.

    Attributes:
        capabilities: Capabilities of the dialect's requests.
        read_request: Function from a body to the request.
        read_tools: Function from a body to its tools; the body need not be a complete request.
        write_request: Function from a projected request to the body, its path and headers.
        read_response: Function from a whole response to the events that its stream would give.
        write_response: Function from a message to a response.  The second argument is the time
            of creation in seconds since 1970; None = as the message says, or 0.
        read_reasoning: Function from a body to its reasoning options, for servers that read
            only some of the dialect's fields; None if all servers read the same fields.
        reasoning_fields: Fields of a body that `read_reasoning` reads.
        fit_body: Function from a written body to one that its server accepts, for edits that no
            list of fields can express; it does not change its argument.
        answer_fields: Request names of response fields (`Message.block_extras`) whose names
            differ.
        count: Reader and writer of token counts; None if the dialect has none.
        models: Reader and writer of model lists; None if the dialect has none.
        revise_response: Function that replaces the model and the time of a response, each if
            not None; None if responses are always written anew.
        echoed_fields: Function from the body of a request to the fields that its responses
            repeat; None if responses repeat none.
        cloud_headers: Function from the body of a request at a cloud's path to the headers of the
            vendor that stand in it, by lower-case name; None if the dialect has no such paths, or
            its requests are the same there.
    """

    capabilities: BodyCapabilities
    read_request: Callable[[dict[str, Any], ReadContext], Request]
    read_tools: Callable[[dict[str, Any]], Sequence[AnyTool]]
    write_request: Callable[[Request, WriteContext], Written]
    read_response: Callable[[dict[str, Any], ReadContext], list[Event]]
    write_response: Callable[[Message, float | None, Losses], dict[str, Any]]
    read_reasoning: Callable[[dict[str, Any]], ReasoningOptions | None] | None = None
    reasoning_fields: frozenset[str] = frozenset()
    fit_body: Callable[[dict[str, Any], WriteContext], dict[str, Any]] = lambda body, _: body
    answer_fields: dict[str, str] = {}
    count: CountCodec | None = None
    models: ModelsCodec | None = None
    revise_response: Callable[[dict[str, Any], str | None, float | None], dict[str, Any]] | None = (
        None
    )
    echoed_fields: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    cloud_headers: Callable[[dict[str, Any]], dict[str, str]] | None = None
