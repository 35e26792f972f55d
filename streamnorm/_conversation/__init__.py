"""The history of one chat, independent of any provider, and its form as JSON.

`answers.py` turns answers into messages of the history and tracks the calls that wait for results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, Self, TypeAlias, TypeVar

from msgspec import UNSET, Struct, UnsetType, structs

from streamnorm._answers import decode_message
from streamnorm._bodies import Encoded, EncodeOptions, encode_grown_request
from streamnorm._conversation.answers import OpenCalls, StreamedAnswer, answer_messages
from streamnorm._core.blocks import CacheMark, ResultBlock, Text, ToolCall, ToolResult
from streamnorm._core.bodies.fields import Body, body_object, check_bounds, conversion_error
from streamnorm._core.bodies.memo import EncodingMemo
from streamnorm._core.bodies.projection.results import RepairPolicy
from streamnorm._core.bodies.projection.tools import MissingTools
from streamnorm._core.bodies.request import InputMessage, Reply, Request, Source
from streamnorm._core.bodies.tool_calls import ArgumentsPolicy
from streamnorm._core.bodies.types import check_message_types, check_request_types
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import InvalidJSON, compact, convert
from streamnorm._core.limits import Limits
from streamnorm._core.messages import Message, MessageSource, message_events
from streamnorm._core.tools import AnyTool
from streamnorm._registry import detect_body, lookup
from streamnorm.profiles import Profiles

__all__ = ["Conversation", "StreamedAnswer"]

_MAX_TARGETS = 8
"""Targets whose encodings are stored at once."""

_Key: TypeAlias = tuple[object, ...]

T = TypeVar("T")
P = TypeVar("P", bound="InputMessage | Request | AnyTool")

_VERSION = 1
_PARTS = ("messages", "tools")  # fields of a request whose elements have sources of their own
# Sources are nested in messages, so the JSON is deeper than the bodies were.
_MORE_DEPTH = 16


class Conversation:
    """The history of one chat, independent of any provider.

        chat = Conversation(Request(model="claude-sonnet-5", tools=(weather,)))
        chat.append(InputMessage("user", (Text("How warm is it in Oslo?"),)))
        body = chat.dump("anthropic").body

    A method that raises leaves the history as it was.  `copy.copy` returns a branch: a
    conversation with the same history, which grows by itself.

    Args:
        request: Request with everything but the history, such as `system` and `tools`; its
            messages are the beginning of the history.

    Raises:
        EncodeError: No call waits for a result in the messages, or a value is of another type.
    """

    def __init__(
        self,
        request: Request = Request(),  # noqa: B008 - frozen
    ) -> None:
        request = check_request_types(request)
        self._base = self._request = request
        self._filled: dict[tuple[int, str], None] = {}  # calls that a dump has filled in
        self._calls = OpenCalls(self._filled.keys())
        for position, message in enumerate(request.messages):
            self._calls.add(message, position)
        self._messages = [*request.messages]
        self._dumps: dict[_Key, Encoded] = {}
        self._memos: dict[_Key, EncodingMemo] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Conversation):
            return NotImplemented
        return self._to_stored() == other._to_stored()

    def __repr__(self) -> str:
        count = len(self._calls.open())
        return f"<Conversation: {len(self._messages)} messages, {count} open tool calls>"

    def __copy__(self) -> Self:
        return self._restore(self._base, self._messages[len(self._base.messages) :], self._filled)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self.__copy__()  # requests and messages are frozen

    def __reduce__(self) -> tuple[Callable[[bytes], Self], tuple[bytes]]:
        # Parts of a request are compared with their sources by identity, which pickle loses.
        return type(self).from_json, (self.to_json(),)

    @property
    def messages(self) -> tuple[InputMessage, ...]:
        """The history, oldest first."""
        return self.request.messages

    @property
    def request(self) -> Request:
        """The request with the whole history."""
        if len(self._request.messages) != len(self._messages) or (
            self._messages and self._request.messages[-1] is not self._messages[-1]
        ):
            self._request = structs.replace(self._base, messages=tuple(self._messages))
        return self._request

    def append(
        self,
        item: InputMessage | Message | Body,
        *,
        dialect: str | None = None,
        server: str | None = None,
        reply: Reply | None = None,
    ) -> None:
        """Append a message, or an answer of a model.

        Args:
            item: A message; an answer, such as `Stream.message`; or the body of a whole
                response, as JSON text or as the decoded object.
            dialect: Dialect of the answer, such as `Stream.dialect`; None to detect the dialect
                of a body, and for a `Message` of `decode_message`, which has its own.  An answer
                of an unknown dialect loses its vendor fields and what only its provider executes.
            server: Name of the server that answered; enables its quirks.
            reply: Response context that `dump` returned with the request; it restores the names
                of tools.

        Raises:
            DecodeError: The body is no response of the dialect, or exceeds a bound.
            EncodeError: No call waits for a result, two calls have one id, or a value is of
                another type.
            TruncatedStream: The answer is not complete.
            UpstreamError: The body is an error.
            UnknownDialect: There is no such dialect.
        """
        if isinstance(item, InputMessage):
            self._add(item)
            return
        if not isinstance(item, Message):
            value = body_object(item, Limits())
            dialect = dialect or detect_body(value, "response")
            item = decode_message(value, dialect, server=server)
        elif dialect is None and isinstance(item.source, MessageSource):
            dialect = item.source.dialect
        answer = self.append_stream(dialect=dialect, reply=reply)
        for event in message_events(item):
            answer.push(event)
        answer.close()

    def append_stream(
        self,
        *,
        dialect: str | None = None,
        server: str | None = None,
        reply: Reply | None = None,
    ) -> StreamedAnswer:
        """Return a `StreamedAnswer`, whose `close` appends the answer to the history.

        Args:
            dialect: Dialect of the stream; None to detect the dialect of bytes.  Events of an
                unknown dialect lose their vendor fields.
            server: Name of the server that answers; enables its quirks.
            reply: As for `append`.
        """
        if dialect is not None:
            dialect = lookup(dialect).name
        return StreamedAnswer(self._append_answer, dialect=dialect, server=server, reply=reply)

    def append_tool_result(
        self, id: str, content: str | Sequence[ResultBlock], *, is_error: bool = False
    ) -> None:
        """Append the result of a tool call.

        Consecutive results form one message, in the order of their calls.  If a dump has filled
        in the result of a call, the real result may come after the next answer.

        Args:
            id: Id of the call.
            content: Text, or blocks.
            is_error: Whether the execution failed.

        Raises:
            EncodeError: No call of that id waits for a result, or the content is no text and
                has other than blocks.
        """
        blocks = (Text(content),) if isinstance(content, str) else tuple(content)
        self._calls.check_open(id, "tool_call_id")
        message = InputMessage("user", (ToolResult(id, blocks, is_error),))
        last = self._messages[-1]
        is_begun = len(self._messages) > len(self._base.messages) and last.source is None
        # A late result is a message of its own: messages that were dumped must not change.
        is_begun = is_begun and not self._calls.is_filled(id)
        if not (is_begun and last.blocks and last.blocks == last.tool_results):
            self._add(message)
            return
        check_message_types((message,), len(self._messages))
        self._calls.add(message, len(self._messages))
        order = self._calls.order()
        results = sorted(
            last.tool_results + message.tool_results,
            key=lambda result: order.get(result.tool_call_id, 0),
        )
        self._messages[-1] = structs.replace(last, blocks=tuple(results))
        self._dumps.clear()

    def open_tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls of the last answer that have no result, in order."""
        return self._calls.open()

    def dump(
        self,
        dialect: str,
        *,
        model: str | None = None,
        cache: CacheMark | None = None,
        server: str | None = None,
        version: str | None = None,
        profiles: Profiles | None = None,
        repair: RepairPolicy = "error",
        arguments: ArgumentsPolicy = "error",
        missing_tools: MissingTools = "error",
        strict: bool = False,
    ) -> Encoded:
        """Encode the request with the whole history, as `encode_request` does.

        The result is cached until the history changes; then only new messages are encoded.  Do
        not change the body: later bodies share its messages.

        Args:
            dialect: Dialect to write.
            model: Name of the model, in place of the model of the request.
            cache: Cache mark at the end of the history.
            server: Name of the server, as for `encode_request`.
            version: Version of the vendor's API.
            profiles: Profiles of models, servers and versions; None = the shipped ones.
            repair: Policy for missing tool results.  A result that was filled in stays so: if
                the real one comes later, it is written as content of the user, so that the
                provider's cache of the history stays valid.
            arguments: Policy for tool arguments that are no JSON object.
            missing_tools: Policy for tools of the provider that the target lacks.
            strict: Whether to raise `LossyEncoding` at the first loss.

        Raises:
            EncodeError: The history has no legal form in the dialect.
            LossyEncoding: Something would be lost, and `strict` is set.
            UnknownDialect: There is no such dialect, or it has no whole bodies.
            ValueError: There is no such policy.
        """
        options: EncodeOptions = {
            "server": server,
            "version": version,
            "profiles": profiles,
            "repair": repair,
            "arguments": arguments,
            "missing_tools": missing_tools,
            "strict": strict,
        }
        name = lookup(dialect).name
        target = (name, model, server, version, profiles, repair, arguments)
        key = (*target, missing_tools, cache, strict)
        known = self._dumps.get(key)
        if known is None:
            request = self._build_request(model, cache)
            filled: Set[tuple[int, str]] = self._filled.keys() if repair == "fill" else frozenset()
            known = encode_grown_request(request, name, self._memo(target), filled, **options)
            while len(self._dumps) >= _MAX_TARGETS:
                del self._dumps[next(iter(self._dumps))]
            self._dumps[key] = known
            if any(loss.feature == "result_filled" for loss in known.losses):
                self._filled.update(dict.fromkeys(self._calls.positions()))
        return known

    def to_json(self) -> bytes:
        """Return the conversation as JSON text, for `from_json`.

        The text has all messages, and all fields of tools and MCP servers, including access
        tokens of these servers.  A lone surrogate becomes U+FFFD.
        """
        return stored_to_json(self._to_stored())

    @classmethod
    def from_json(
        cls,
        data: Body,
    ) -> Self:
        """Return the conversation that `to_json` wrote.

        Args:
            data: JSON text, or the decoded object.

        Raises:
            DecodeError: The data is no conversation of a known version, or exceeds a bound.
            EncodeError: No call waits for a result.
        """
        stored = stored_from_json(data, Limits())
        return cls._restore(stored.request, stored.appended, stored.filled or ())

    @classmethod
    def _restore(
        cls,
        request: Request,
        appended: Iterable[InputMessage],
        filled: Iterable[tuple[int, str]],
    ) -> Self:
        """Return a conversation with a history, and the calls that its dumps have filled in."""
        conversation = cls(request)
        conversation._filled.update(dict.fromkeys(filled))
        for message in appended:
            conversation._add(message)
        return conversation

    def _to_stored(self) -> Stored:
        begun = len(self._base.messages)
        appended = tuple(self._messages[begun:])
        filled = tuple(sorted(self._filled)) or UNSET
        return Stored(request=self._base, appended=appended, filled=filled)

    def _append_answer(self, message: Message, dialect: str | None) -> None:
        self._add(*answer_messages(message, dialect))

    def _add(self, *messages: InputMessage) -> None:
        """Add messages, all or none."""
        check_message_types(messages, len(self._messages))
        calls = self._calls if len(messages) == 1 else self._calls.copy()
        for position, message in enumerate(messages, len(self._messages)):
            calls.add(message, position)
        self._calls = calls
        self._messages += messages
        self._dumps.clear()

    def _build_request(self, model: str | None, cache: CacheMark | None) -> Request:
        """Return the request for `model` with the whole history, and `cache` on the last block."""
        request = self.request
        if model is not None and model != request.model:
            request = structs.replace(request, model=model)
        if cache is None or not request.messages or not request.messages[-1].blocks:
            return request
        *messages, last = request.messages
        *blocks, block = last.blocks
        marked = structs.replace(last, blocks=(*blocks, structs.replace(block, cache=cache)))
        return structs.replace(request, messages=(*messages, marked))

    def _memo(self, target: _Key) -> EncodingMemo:
        """Return a target's encoding cache; above a bound, drop the least recently used cache."""
        memo = self._memos.pop(target, None) or EncodingMemo()
        while len(self._memos) >= _MAX_TARGETS:
            del self._memos[next(iter(self._memos))]
        self._memos[target] = memo
        return memo


class Stored(Struct, frozen=True, kw_only=True):
    """The stored form of a conversation.

    Attributes:
        streamnorm_conversation: Version of the format.
        request: Request that the conversation began with.
        appended: Messages that were appended.
        filled: Calls whose results were filled in by a dump; absent if there are none.
    """

    streamnorm_conversation: int = _VERSION
    request: Request
    appended: tuple[InputMessage, ...] = ()
    filled: tuple[tuple[int, str], ...] | UnsetType = UNSET


class _PackedSource(Struct, frozen=True, omit_defaults=True):
    """A `Source` in stored form: the decoded JSON, and the original values of replaced fields.

    Attributes:
        dialect: Dialect of the part.
        value: JSON that the part was decoded from, or None.
        changed: Original values of the fields that were replaced since.
        cleaned: As in `Source`.
    """

    dialect: str
    value: dict[str, Any] | list[dict[str, Any]] | None
    changed: dict[str, Any]
    cleaned: bool = False


def stored_to_json(stored: Stored) -> bytes:
    """Encode a conversation as JSON text."""
    packed = structs.replace(
        stored,
        request=_pack(stored.request),
        appended=tuple(map(_pack, stored.appended)),
    )
    return compact(packed).encode()


def stored_from_json(data: Body, limits: Limits) -> Stored:
    """Decode a conversation from JSON text.

    Raises:
        DecodeError: The text is no conversation of this version, or exceeds a bound.
    """
    depth = limits.max_json_depth + _MORE_DEPTH
    value = body_object(data, structs.replace(limits, max_json_depth=depth))
    if value.get("streamnorm_conversation") != _VERSION:
        raise DecodeError(
            f"no conversation of version {_VERSION}, expected one",
            path="$.streamnorm_conversation",
        )
    packed = _convert(value, Stored)
    stored = structs.replace(
        packed,
        request=_unpack(packed.request, value["request"]),
        appended=_unpack_all(packed.appended, value.get("appended", [])),
    )
    check_bounds(stored.request, limits)
    check_bounds(Request(messages=stored.appended), limits)
    return stored


def _pack(part: P) -> P:
    """Return a request, message or tool with all decoded sources packed."""
    if isinstance(part, Request):
        return structs.replace(
            part,
            messages=tuple(map(_pack, part.messages)),
            tools=tuple(map(_pack, part.tools)),
            source=_pack_source(part),
        )
    return structs.replace(part, source=_pack_source(part))


def _pack_source(part: InputMessage | Request | AnyTool) -> _PackedSource | None:
    source = part.source
    if not isinstance(source, Source):
        return None
    changed: dict[str, Any] = {
        name: getattr(source.part, name)
        for name in part.__struct_fields__
        if name != "source" and getattr(part, name) is not getattr(source.part, name)
    }
    for name in _PARTS:
        if name in changed:
            parts: tuple[InputMessage | AnyTool, ...] = changed[name]
            changed[name] = tuple(map(_pack, parts))
    return _PackedSource(source.dialect, source.value, changed, source.cleaned)


def _unpack_all(parts: tuple[P, ...], values: list[dict[str, Any]]) -> tuple[P, ...]:
    return tuple(map(_unpack, parts, values))


def _unpack(part: P, value: dict[str, Any]) -> P:
    """Return a request, message or tool with its packed source unpacked.

    Args:
        part: The part, without sources.
        value: JSON that the part was converted from.

    Raises:
        DecodeError: The source is invalid.
    """
    packed = part.source
    part = structs.replace(part, source=None)
    if isinstance(part, Request):
        part = structs.replace(
            part,
            messages=_unpack_all(part.messages, value.get("messages", [])),
            tools=_unpack_all(part.tools, value.get("tools", [])),
        )
    if packed is None:
        return part
    source = _convert(packed, _PackedSource)
    read = _restore_part(part, value, source.changed)
    return structs.replace(part, source=Source(source.dialect, source.value, read, source.cleaned))


def _restore_part(part: P, value: dict[str, Any], changed: dict[str, Any]) -> P:
    """Return a request, message or tool whose `changed` fields have their decoded values."""
    if not changed:
        return part
    read = _convert({**value, **changed, "source": None}, type(part))
    if isinstance(read, Request):
        for name in _PARTS:
            if name in changed:
                parts = _unpack_all(getattr(read, name), changed[name])
                read = structs.replace(read, **{name: parts})
    known = {name: getattr(read, name) for name in changed if name in part.__struct_fields__}
    return structs.replace(part, **known)


def _convert(value: Any, type: type[T]) -> T:
    """Convert decoded JSON to a type.

    Raises:
        DecodeError: The value does not fit.
    """
    try:
        return convert(value, type)
    except InvalidJSON as exc:
        raise conversion_error(exc) from None
