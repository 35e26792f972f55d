"""Messages of a thread: from AG-UI's messages to those of a request.

The client makes a message of each reasoning, each text and, without `parentMessageId`, of each
call (`@ag-ui/client` 1.0.0, `src/apply/default.ts`, read 2026-11-27).  Neighbours among them are
one answer of the provider, and the results of its calls follow it
(pydantic/pydantic-ai#5964).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from streamnorm._core.blocks import (
    InputBlock,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
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
from streamnorm._core.json import is_array, objects_of
from streamnorm._core.text import Signed
from streamnorm.dialects.ag_ui.body.content import content_from_wire
from streamnorm.dialects.ag_ui.content import (
    citation_from_wire,
    item_id_of,
    redacted_from_wire,
    signature_from_wire,
)
from streamnorm.dialects.ag_ui.tool_calls import (
    PYDANTIC_SERVER_CALL,
    is_server_call,
    is_unanswered,
    kind_of,
    result_from_wire,
)
from streamnorm.dialects.ag_ui.wire import CITATIONS, DIALECT, IS_ERROR

_UNSIGNED = Signed("")


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
    """The messages of a thread while they are read.

    Attributes:
        messages: The messages of the request so far.
    """

    def __init__(self) -> None:
        self.messages: list[InputMessage] = []
        self._name: str | None = None
        self._blocks: list[InputBlock] = []  # of the answer
        self._results: list[ToolResult] = []  # of its calls
        self._answer_calls: set[str] = set()
        self._by_provider: dict[str, bool] = {}  # of all calls, by id

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
        require_str(value, "id")
        read(self, value)

    def end_answer(self) -> None:
        """Add the answer and the results of its calls to the messages."""
        if self._blocks:
            self.messages.append(InputMessage("assistant", tuple(self._blocks), self._name))
        if self._results:
            self.messages.append(InputMessage("user", tuple(self._results)))
        self._blocks, self._results, self._name = [], [], None
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
            before = self._blocks[-1] if self._blocks else None
            if id is not None and isinstance(before, Reasoning) and _is_of_item(before, id):
                # The summaries of an item are messages, of which pydantic-ai signs the first, and
                # our own stream, which learns the signature last, the last one.
                parts = (*before.parts, *parts)
                if signature is None:
                    signature, issuer = before.signature, before.issuer
                self._blocks.pop()
            self._blocks.append(Reasoning(parts, signature, issuer, id))
        if redacted is not None:
            self._blocks.append(redacted)

    def _tool(self, value: dict[str, Any]) -> None:
        id, metadata = require_str(value, "toolCallId"), get_object(value, "metadata")
        by_provider = self._by_provider.get(id)
        if by_provider is None:
            problem = "of an unknown call, expected one of an earlier message"
            raise DecodeError(problem, path="$.toolCallId")
        content, error = content_from_wire(value), get_str(value, "error")
        if is_unanswered(metadata):
            return
        if by_provider:
            text = "".join(part.text for part in content if isinstance(part, Text))
            self._blocks.append(result_from_wire(id, text or error or "", metadata))
            return
        if error and not content:
            content = (Text(error),)
        is_error = bool(error) or (metadata or {}).get(IS_ERROR) is True
        result = ToolResult(id, content, is_error, extra=_encrypted_extra(value))
        self._results.append(result)

    _READERS: ClassVar[dict[str, Callable[[_Thread, dict[str, Any]], None]]] = {
        "user": _user,
        "assistant": _assistant,
        "tool": _tool,
        "reasoning": _reasoning,
        "system": _system,
        "developer": _system,
        "activity": _activity,
    }


def _is_of_item(before: Reasoning, id: str) -> bool:
    return before.signature is None if before.id is None else before.id == id


def _encrypted_extra(value: dict[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return the encrypted value of a message that no block has a field for."""
    encrypted = get_str(value, "encryptedValue")
    return {DIALECT: {"encryptedValue": encrypted}} if encrypted else None
