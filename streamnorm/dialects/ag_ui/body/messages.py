"""Messages of a request and of a thread, in both directions.

The client makes a message of each reasoning, each text and, without `parentMessageId`, of each
call (`@ag-ui/client` 1.0.0, `src/apply/default.ts`, read 2026-11-27).  Neighbours among them are
one answer of the provider, and the results of its calls follow it
(pydantic/pydantic-ai#5964).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from streamnorm._core.blocks import (
    Audio,
    Document,
    Image,
    InputBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from streamnorm._core.bodies.chats import (
    AnswerBlocks,
    ChatMessage,
    HistoryItem,
    read_history,
    result_text,
    wrap_arguments,
)
from streamnorm._core.bodies.fields import (
    as_object,
    get_object,
    get_objects,
    get_str,
    prefix_path,
    read_array,
    require_str,
    unexpected,
)
from streamnorm._core.bodies.request import InputMessage, Role
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_array, is_json, objects_of
from streamnorm._core.losses import Losses
from streamnorm._core.losses.call_results import RESULT_KIND
from streamnorm._core.text import Signed, tag_signature
from streamnorm.dialects.ag_ui.body.content import content_from_wire, content_to_wire
from streamnorm.dialects.ag_ui.content import (
    BROKEN,
    PYDANTIC_SERVER_CALL,
    UNFINISHED,
    citation_from_wire,
    citation_to_wire,
    is_next_part,
    is_server_call,
    is_unanswered,
    item_id_of,
    kind_of,
    mark_of,
    redacted_from_wire,
    redacted_to_wire,
    result_from_wire,
    result_to_wire,
    signature_from_wire,
    unanswered_to_wire,
    value_from_wire,
)
from streamnorm.dialects.ag_ui.wire import CITATIONS, DIALECT, IS_CONTINUED, IS_ERROR, IS_JSON

_UNSIGNED = Signed("")
_FAILED = "the tool failed"


def messages_from_wire(value: object) -> tuple[InputMessage, ...]:
    """Return the messages of a request.

    Raises:
        DecodeError: An entry is no message.
    """
    if not is_array(value):
        if value is None:
            raise DecodeError("missing, expected an array", path="$.messages")
        raise unexpected(value, "an array", "$.messages")
    thread = _Thread()
    read_array(value, thread.read, "$.messages")
    thread.end_answer()
    return tuple(thread.messages)


class _Thread:
    """Decoder of a thread's messages to unified messages.

    Attributes:
        messages: The messages of the request so far.
    """

    def __init__(self) -> None:
        self.messages: list[InputMessage] = []
        self._name: str | None = None
        self._blocks = AnswerBlocks()
        self._results: list[ToolResult] = []  # of its calls
        self._answer_calls: set[str] = set()
        self._by_provider: dict[str, bool] = {}  # of all calls, by id
        self._last_id = ""  # of the message before the one that is read

    def read(self, item: object) -> None:
        """Read the next message.

        Raises:
            DecodeError: Its role is unknown, or a field has another type than the protocol's.
        """
        value = as_object(item)
        role = require_str(value, "role")
        read = self._READERS.get(role)
        if read is None:
            expected = f"one of {', '.join(self._READERS)}"
            raise DecodeError(f"another role, expected {expected}", path="$.role")
        id = require_str(value, "id")
        read(self, value)
        self._last_id = id

    def end_answer(self) -> None:
        """Append the collected assistant message, and a user message with the tool results."""
        if blocks := self._blocks.finish():
            self.messages.append(InputMessage("assistant", blocks, self._name))
        if self._results:
            self.messages.append(InputMessage("user", tuple(self._results)))
        self._blocks, self._results, self._name = AnswerBlocks(), [], None
        self._answer_calls.clear()

    def _user(self, value: dict[str, Any]) -> None:
        self._add_message("user", content_from_wire(value), value)

    def _system(self, value: dict[str, Any]) -> None:
        role: Role = "system" if value["role"] == "system" else "developer"
        self._add_message(role, (Text(require_str(value, "content")),), value)

    def _add_message(
        self, role: Role, blocks: tuple[InputBlock, ...], value: dict[str, Any]
    ) -> None:
        self.end_answer()
        extra = _encrypted_extra(value)
        self.messages.append(InputMessage(role, blocks, get_str(value, "name"), extra))

    def _activity(self, value: dict[str, Any]) -> None:
        pass  # which the page shows, and the client itself strips

    def _assistant(self, value: dict[str, Any]) -> None:
        self._continue_answer()
        self._name = self._name or get_str(value, "name")
        text, encrypted = get_str(value, "content") or "", get_str(value, "encryptedValue")
        signed = (signature_from_wire(encrypted) if encrypted else None) or _UNSIGNED
        entries = (get_object(value, "metadata") or {}).get(CITATIONS)
        if text or signed.signature:
            citations = tuple(map(citation_from_wire, objects_of(entries)))
            signature = signed.signature or None
            self._blocks.append(Text(text, citations, signature, signed.issuer))
        for path, call in get_objects(value, "toolCalls"):
            try:
                self._add_call(call)
            except DecodeError as exc:
                raise prefix_path(exc, path) from None

    def _continue_answer(self) -> None:
        if self._results:
            self.end_answer()

    def _add_call(self, value: dict[str, Any]) -> None:
        id, function = require_str(value, "id"), get_object(value, "function")
        if not id:
            raise DecodeError("an empty id, expected one", path="$.id")
        if id in self._answer_calls:
            raise DecodeError("id of another call, expected one of its own", path="$.id")
        if function is None or get_str(value, "type") not in (None, "function"):
            raise DecodeError("no call of a function, expected one")
        try:
            name, arguments = require_str(function, "name"), require_str(function, "arguments")
        except DecodeError as exc:
            raise prefix_path(exc, "$.function") from None
        if not name:
            raise DecodeError("an empty name, expected one", path="$.function.name")
        self._answer_calls.add(id)
        metadata, encrypted = get_object(value, "metadata"), get_str(value, "encryptedValue")
        by_provider = is_server_call(metadata) or id.startswith(PYDANTIC_SERVER_CALL)
        self._by_provider[id] = by_provider
        if by_provider:
            self._blocks.append(ServerToolCall(id, name, arguments, kind_of(metadata or {})))
            return
        signed = (signature_from_wire(encrypted) if encrypted else None) or _UNSIGNED
        signature = signed.signature or None
        self._blocks.append(
            ToolCall(id, name, arguments, signature=signature, issuer=signed.issuer)
        )

    def _reasoning(self, value: dict[str, Any]) -> None:
        self._continue_answer()
        text, encrypted = require_str(value, "content"), get_str(value, "encryptedValue")
        parts = (text,) if text else ()
        redacted = redacted_from_wire(encrypted) if encrypted else None
        signed = signature_from_wire(encrypted) if encrypted and redacted is None else None
        if redacted is None or parts:
            signature, issuer, id = signed or (None, None, item_id_of(encrypted or ""))
            block = Reasoning(parts, signature, issuer, id)
            mark = (get_object(value, "metadata") or {}).get(IS_CONTINUED)
            # Clients up to 0.0.57 drop the mark, and older versions of the encoder wrote none.
            is_part = is_next_part(self._last_id, value["id"])
            self._blocks.append_reasoning(block, is_continued=mark is True, is_part=is_part)
        if redacted is not None:
            self._blocks.append(redacted)

    def _tool(self, value: dict[str, Any]) -> None:
        id, metadata = require_str(value, "toolCallId"), get_object(value, "metadata")
        # Google executes some calls of functions itself, and OpenAI's results of a shell name an id
        # that no call has: only the result says so.
        by_provider = is_server_call(metadata) or self._by_provider.get(id)
        if by_provider is None:
            problem = "of an unknown call, expected one of an earlier message"
            raise DecodeError(problem, path="$.toolCallId")
        content, error = content_from_wire(value), get_str(value, "error")
        if is_unanswered(metadata) or kind_of(metadata or {}) == RESULT_KIND:
            return  # what its call says
        text = "".join(part.text for part in content if isinstance(part, Text))
        if by_provider:
            self._blocks.append(result_from_wire(id, text or error or "", metadata))
            return
        is_error = bool(error) or (metadata or {}).get(IS_ERROR) is True
        said, extra = value_from_wire(value["content"], metadata), _encrypted_extra(value)
        # The encoder writes the content as the error, too; others say what went wrong in it alone.
        if error and error != text:
            content, said = (*content, Text(f"\n{error}" if content else error)), None
        self._results.append(ToolResult(id, content, is_error, value=said, extra=extra))

    _READERS: ClassVar[dict[str, Callable[[_Thread, dict[str, Any]], None]]] = {
        "user": _user,
        "assistant": _assistant,
        "tool": _tool,
        "reasoning": _reasoning,
        "system": _system,
        "developer": _system,
        "activity": _activity,
    }


def _encrypted_extra(value: dict[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return the `encryptedValue` of a message as unified `extra`, or None."""
    encrypted = get_str(value, "encryptedValue")
    return {DIALECT: {"encryptedValue": encrypted}} if encrypted else None


def messages_to_wire(history: Iterable[HistoryItem], losses: Losses) -> list[dict[str, Any]]:
    """Return the messages of a conversation as AG-UI messages.

    Args:
        history: The messages, oldest first.
        losses: Counter of what AG-UI's messages have no place for.
    """
    writer = _ThreadWriter(losses)
    for message in read_history(history, DIALECT, losses):
        writer.add(message)
    writer.end_answer()
    return writer.messages


class _ThreadWriter:
    """Encoder of unified messages to a thread's messages.

    Args:
        losses: Counter of what they have no place for.

    Attributes:
        messages: The messages so far.
    """

    def __init__(self, losses: Losses) -> None:
        self.messages: list[dict[str, Any]] = []
        self._losses = losses
        self._stem = "message"  # of the ids: that of the run whose answer is written
        self._call_ids: set[str] = set()
        self._unanswered: dict[str, None] = {}  # calls of the provider without a result
        self._broken: dict[str, str] = {}  # problems of calls of the client without a result

    def add(self, message: ChatMessage) -> None:
        """Write a message as AG-UI messages; an assistant message may become several."""
        if message.role == "assistant":
            self.end_answer()
            if self.messages and self.messages[-1]["role"] in ("assistant", "reasoning"):
                # Neighbours are one answer for whoever reads them.
                self._losses.add("messages_merged", "messages", "read as one answer")
            self._stem = (message.answer.id if message.answer is not None else "") or "message"
            for block in message.blocks:
                self._add_block(block, message.name)
            self._answer_server_calls()
            return
        self._stem = "message"
        others: list[InputBlock] = []
        for block in message.blocks:
            if isinstance(block, ToolResult):
                self._add_result(block)
            else:
                others.append(block)
        if not others and message.blocks:
            return
        self.end_answer()
        content = content_to_wire(others, self._losses)
        if message.role != "user" and not isinstance(content, str):
            content = "".join(part.get("text", "") for part in content)
        if content:
            named = {} if message.name is None else {"name": message.name}
            self._append(message.role, **named, content=content)
        else:
            self._losses.add("empty_message_dropped", "messages", "dropped")

    def _answer_server_calls(self) -> None:
        """Write a result for each server call that the provider left unanswered.

        The client takes a call without a result for its own.
        """
        for id in self._unanswered:
            self._append("tool", toolCallId=id, **unanswered_to_wire())
        self._unanswered.clear()

    def end_answer(self) -> None:
        """Write an error result for each incomplete call that has no result.

        The client would execute it.
        """
        for id, problem in self._broken.items():
            self._losses.add("result_filled", "messages", "written as an error")
            self._append("tool", toolCallId=id, content=problem, error=problem)
        self._broken.clear()

    def _append(self, role: str, **fields: Any) -> dict[str, Any]:
        message = {"id": f"{self._stem}-{len(self.messages)}", "role": role, **fields}
        self.messages.append(message)
        return message

    def _add_block(self, block: InputBlock, name: str | None) -> None:
        match block:
            case Text():
                self._add_text(block, {} if name is None else {"name": name})
            case Reasoning():
                parts = block.parts or ("",)
                if block.id is not None and block.signature is None:
                    self._losses.add("item_id", "messages", "dropped without a signature")
                for text in parts[:-1]:
                    self._append("reasoning", content=text, metadata={IS_CONTINUED: True})
                signed = block.signature, block.issuer, block.id
                self._append("reasoning", content=parts[-1], **_make_encrypted_field(*signed))
            case RedactedReasoning():
                value = redacted_to_wire(block)
                self._append("reasoning", content="", encryptedValue=value)
            case ToolCall() | ServerToolCall():
                self._add_call(block)
            case ServerToolResult(id):
                self._unanswered.pop(id, None)
                self._broken.pop(id, None)  # Google executes some calls of functions itself
                if id in self._call_ids:
                    self._append("tool", toolCallId=id, **result_to_wire(block))
                else:
                    self._losses.add("server_history_dropped", "messages", "dropped")
            case ToolResult():
                self._add_result(block)
            case Image() | Document() | Audio() | Video():
                kind = str(block.__struct_config__.tag)
                self._losses.add(f"{kind}_dropped", "messages", "dropped from an assistant message")
            case _:
                self._losses.add("opaque_block", "messages", "dropped")

    def _add_text(self, block: Text, fields: dict[str, Any]) -> None:
        if not block.text and block.signature is None:  # the message of a call has none, either
            self._losses.add("empty_text_dropped", "messages", "dropped")
            return
        fields |= _make_encrypted_field(block.signature, block.issuer)
        entries = [citation_to_wire(each) for each in block.citations if each.url is not None]
        if len(entries) < len(block.citations):
            self._losses.add("citations", "messages", "dropped without a URL")
        if entries:
            fields["metadata"] = {CITATIONS: entries}
        self._append("assistant", content=block.text, **fields)

    def _add_call(self, call: ToolCall | ServerToolCall) -> None:
        # Calls are part of the message before them, as in a stream, unless something else than
        # the answer's text stands between.
        last = self.messages[-1] if self.messages else {}
        parent = last if last.get("role") == "assistant" else self._append("assistant")
        self._call_ids.add(call.id)
        fields: dict[str, Any] = {"id": call.id, "type": "function"}
        if isinstance(call, ServerToolCall):
            self._unanswered[call.id] = None
            fields["metadata"] = mark_of(call)
            arguments = call.arguments
        else:
            fields |= _make_encrypted_field(call.signature, call.issuer)
            arguments = wrap_arguments(call, self._losses)
            if call.is_unfinished or not is_json(arguments or "{}"):
                self._broken[call.id] = UNFINISHED if call.is_unfinished else BROKEN
        # Clients parse the arguments as JSON.
        function = {"name": call.name, "arguments": arguments or "{}"}
        parent.setdefault("toolCalls", []).append({**fields, "function": function})

    def _add_result(self, result: ToolResult) -> None:
        if result.tool_call_id not in self._call_ids:
            self._losses.add("orphan_result", "messages", "dropped")
            return
        self._broken.pop(result.tool_call_id, None)
        text = result_text(result, self._losses)
        error = {"error": text or _FAILED} if result.is_error else {}
        encrypted = (result.extra or {}).get(DIALECT, {})
        fields = {"toolCallId": result.tool_call_id, "content": text, **error, **encrypted}
        if result.value is not None and result.value == text:
            fields["metadata"] = {IS_JSON: True}
        elif result.value is not None:
            self._losses.add("result_value", "messages", "dropped")
        self._append("tool", **fields)


def _make_encrypted_field(
    signature: str | None, issuer: str | None = None, id: str | None = None
) -> dict[str, str]:
    """Return the `encryptedValue` field of a signature; {} without a signature."""
    return {} if signature is None else {"encryptedValue": tag_signature(signature, issuer, id)}
