"""The contract of a dialect's whole bodies: requests and responses."""

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
    """What is known of a body beside its content.

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
    """What a writer needs beside the projected request.

    Args:
        capabilities: Those of the target, narrowed by its profile.
        losses: Counts what the body cannot carry.
        arguments: Policy for tool arguments that are no JSON object.
        memo: What was written of a growing history before; None if it is written once.
        named: Whether the target is a server that is known by its name, whose rules hold for
            requests of its own dialect, too.
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
            EncodeError: They are no JSON object, and the policy is `error`.
        """
        value: dict[str, Any] = arguments_object(call, self._arguments, self.losses, path)
        return value

    def write_once(self, message: InputMessage, number: int, write: Callable[[], T]) -> T:
        """Return what a message is in the body; `write` is called if it was not written before.

        The value must not be changed: later bodies of the same history have it, too.

        Args:
            message: The message.
            number: Its number among the messages.
            write: Returns the value.
        """
        if self._memo is None:
            return write()
        return self._memo.result("written", number, message, self.losses, write)


class Written(Struct, frozen=True):
    """A request in a dialect.

    Attributes:
        body: The JSON object to send.
        path: Path of the endpoint, with the model where it stands there.
        headers: Headers that belong to the body, such as betas; without keys.
    """

    body: dict[str, Any]
    path: str
    headers: dict[str, str] = {}


class CountCodec(Struct, frozen=True, kw_only=True):
    """Reader and writer of requests for a number of tokens, and of their answers.

    Readers raise `DecodeError` for a body that is not of the dialect.

    Attributes:
        fields: Fields of a request for a message that one for its tokens has too; None = all.
        suffix: What the path has behind the path of the message.
        tokens: Field of the answer with the number.
        constants: Fields of every answer.
    """

    fields: frozenset[str] | None = None
    suffix: str = ""
    tokens: str = "input_tokens"
    constants: dict[str, Any] = {}

    def read_request(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of the request whose tokens are asked for."""
        return body

    def write_request(self, written: Written) -> Written:
        """Return a request for the tokens of a written request, which has no other fields."""
        return structs.replace(written, path=written.path + self.suffix)

    def read_count(self, body: dict[str, Any]) -> TokenCount:
        """Return the number of tokens that an answer holds."""
        return TokenCount(require_count(body, self.tokens))

    def write_count(self, count: TokenCount) -> dict[str, Any]:
        """Return a number of tokens as an answer."""
        return {**self.constants, self.tokens: count.input_tokens}


class BodyCodec(Struct, frozen=True, kw_only=True):
    """Reader and writer of whole bodies of one dialect.

    Readers raise `DecodeError` for a body that is not of the dialect.  Its texts have no lone
    surrogates.

    Attributes:
        capabilities: What its requests can carry.
        read_request: Returns the request that a body is.
        read_tools: Returns the tools that a body of a request offers, whatever else it lacks.
        write_request: Returns a projected request as a body.
        read_response: Returns the events of a whole response, as its stream would give them.
        write_response: Returns a message as a response.  `created` is in
            seconds since 1970; None = as the message says, or 0.
        field_parts: The fields of `Request` that each field of its requests holds; a field that
            is not named holds what has no unified place.
        spells_unchanged: `write_request` spells the unchanged fields of a request of the dialect
            as they were decoded.
        read_reasoning: Returns how much the model reasons by some fields of a request's body; None
            where servers of the dialect read the same fields.
        fit_body: Returns a written body as its server takes it, where no list of fields says how;
            the given one is not changed.
        answer_fields: Names that fields of an answer's blocks (`Message.block_extras`) have
            in a request, where they have another one.
        count: Reader and writer of counts of tokens; None if the dialect has none.
        models: Reader and writer of lists of models; None if the dialect has none.
        revise_response: Returns a response of this dialect with another model and another
            time, each if it is not None; None if responses are always written anew.
        echoed_fields: Returns the fields of a request's body that its responses repeat; None
            if they repeat none and have no fields that `Reply.response` replaces.
    """

    capabilities: BodyCapabilities
    read_request: Callable[[dict[str, Any], ReadContext], Request]
    read_tools: Callable[[dict[str, Any]], Sequence[AnyTool]]
    write_request: Callable[[Request, WriteContext], Written]
    read_response: Callable[[dict[str, Any], ReadContext], list[Event]]
    write_response: Callable[[Message, float | None, Losses], dict[str, Any]]
    field_parts: Mapping[str, tuple[str, ...]] = {}
    spells_unchanged: bool = False
    read_reasoning: Callable[[dict[str, Any]], ReasoningOptions | None] | None = None
    fit_body: Callable[[dict[str, Any], WriteContext], dict[str, Any]] = lambda body, _: body
    answer_fields: dict[str, str] = {}
    count: CountCodec | None = None
    models: ModelsCodec | None = None
    revise_response: Callable[[dict[str, Any], str | None, float | None], dict[str, Any]] | None = (
        None
    )
    echoed_fields: Callable[[dict[str, Any]], dict[str, Any]] | None = None
