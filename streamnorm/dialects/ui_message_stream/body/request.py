"""Request bodies, as `DefaultChatTransport` posts them.

npm `ai` 7.0.173, `src/ui/http-chat-transport.ts` (read 2026-11-27): `id` of the chat, `messages`,
`trigger`, and `messageId` of an answer that is made again or continued.  Whatever else stands in
the body is of the application.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.bodies.fields import get_str, unknown_fields
from streamnorm._core.bodies.request import Request, Source
from streamnorm._core.codec import ReadContext
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_object, string_of
from streamnorm._core.limits import Limits
from streamnorm.dialects.ui_message_stream.body.messages import messages_from_wire
from streamnorm.dialects.ui_message_stream.wire import DIALECT

_MESSAGES = "messages"
# They name the chat and the answer, not what the model is asked.
_NAMES = ("id", "trigger", "messageId")
_FIELDS = frozenset({_MESSAGES, *_NAMES})
_MAX_ID_CHARS = Limits().max_id_chars


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Decode a body to a unified request.

    It names no model, and no tools: both are the server's to choose.

    Raises:
        DecodeError: The body is no request of `useChat`.
    """
    for name in _NAMES:
        get_str(body, name)
    if _MESSAGES not in body and "message" in body:
        # `prepareSendMessagesRequest` of many applications sends the last message alone, whose
        # history the server stores in a form of its own.
        problem = "missing beside a single message, expected all messages of the chat"
        raise DecodeError(problem, path=f"$.{_MESSAGES}")
    messages = messages_from_wire(body.get(_MESSAGES))
    if len(echoed_fields(body).get("messageId", "")) > _MAX_ID_CHARS:
        problem = f"longer than {_MAX_ID_CHARS} characters, expected at most that"
        raise DecodeError(problem, path=f"$.{_MESSAGES}[{len(body[_MESSAGES]) - 1}].id")
    unknown = unknown_fields(body, _FIELDS)
    extra = {DIALECT: unknown} if unknown else None
    # The client reads nothing but a stream.
    request = Request(messages=messages, stream=True, extra=extra)
    return structs.replace(request, source=Source(DIALECT, body, request))


def echoed_fields(body: dict[str, Any]) -> dict[str, Any]:
    """Return the id of the assistant message that the answer continues, if any.

    `src/ui/get-response-ui-message-id.ts` of npm `ai` 7.0.173: it is the last message of the chat.
    """
    last = body[_MESSAGES][-1]
    is_continued = is_object(last) and last.get("role") == "assistant"
    id = string_of(last, "id") if is_continued else ""
    return {"messageId": id} if id else {}
