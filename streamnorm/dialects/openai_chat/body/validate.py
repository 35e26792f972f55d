"""Checks of requests against the rules of Chat Completions and compatible servers.

First the checks of the vendor's own API, then the checks of compatible servers, whose chat
templates and upstreams refuse more.  A check is written from what the server refuses and
shares no code with the encoders.  It accepts any JSON: another rule reports a value of the
wrong type.

https://platform.openai.com/docs/api-reference/chat/create (read 2026-11-23), and the types of
openai 3.54.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from streamnorm._core.bodies.files import PDF
from streamnorm._core.codec import Finding, RequestCheck, RequestFacts
from streamnorm._core.json import compact, is_array, is_object, objects_at, objects_of

_MAX_STOPS = 4
_MAX_LABEL_CHARS = 512
_MAX_LABEL_NAME_CHARS = 64
# The bound of OpenAI's breakpoints, and of Anthropic's marks that OpenRouter forwards.
_MAX_MARKS = 4
_ANTHROPIC_FORMAT = "anthropic-claude-v1"

_TEXT_MESSAGE = frozenset({"content", "name", "role"})
# OpenAI accepts `annotations`, which its reference has in answers alone: clients append the message
# of an answer to the next request as it is (a captured exchange in SigNoz/signoz, May 2026).
_ASSISTANT_FIELDS = frozenset({"annotations", "audio", "function_call", "refusal", "tool_calls"})
_MESSAGE_FIELDS = {
    "system": _TEXT_MESSAGE,
    "developer": _TEXT_MESSAGE,
    "user": _TEXT_MESSAGE,
    "function": _TEXT_MESSAGE,
    "assistant": _TEXT_MESSAGE | _ASSISTANT_FIELDS,
    "tool": frozenset({"content", "role", "tool_call_id"}),
}
_PART_FIELDS = {
    "text": frozenset({"prompt_cache_breakpoint", "text", "type"}),
    "image_url": frozenset({"image_url", "prompt_cache_breakpoint", "type"}),
    "input_audio": frozenset({"input_audio", "prompt_cache_breakpoint", "type"}),
    "file": frozenset({"file", "prompt_cache_breakpoint", "type"}),
    "refusal": frozenset({"refusal", "type"}),
}
# Parts by role, in the order of the vendor's message.  It reports an image of another role than
# the user with a message of its own.
_PARTS = {
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
}
_IMAGE = "image_url"
_IMAGE_TYPES = frozenset({"image/gif", "image/jpeg", "image/jpg", "image/png", "image/webp"})
# Roles whose content must not be null, and fields that replace the content of other roles.
_WITH_CONTENT = frozenset({"system", "developer", "user", "tool"})
_NO_CONTENT = ("audio", "function_call", "refusal", "tool_calls")


class _Message(NamedTuple):
    """A message of a request.

    Attributes:
        path: The path.
        role: The role; "" if it has none.
        value: The message.
    """

    path: str
    role: str
    value: dict[str, Any]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The tool calls."""
        return objects_of(self.value.get("tool_calls"))


def _messages(facts: RequestFacts) -> list[_Message]:
    """Return the messages of a request that are objects."""
    return [
        _Message(path, str(message.get("role") or ""), message)
        for path, message in objects_at(facts.body.get("messages"), "messages")
    ]


def _messages_with_role(facts: RequestFacts) -> Iterator[_Message]:
    """Yield the messages whose `role` is a string."""
    for message in _messages(facts):
        if isinstance(message.value.get("role"), str):
            yield message


def _parts(facts: RequestFacts) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the parts of all messages, with path and role."""
    for path, role, message in _messages_with_role(facts):
        for place, part in objects_at(message.get("content"), f"{path}.content"):
            yield place, role, part


# Fields


def unknown_message_fields(facts: RequestFacts) -> Iterator[Finding]:
    """Yield message fields that the role does not define."""
    for path, role, message in _messages_with_role(facts):
        known = _MESSAGE_FIELDS.get(role)
        for name in message:
            if known is not None and name not in known:
                yield Finding(f"{path}.{name}", name=name)


def unknown_part_fields(facts: RequestFacts) -> Iterator[Finding]:
    """Yield part fields that the part's type does not define."""
    for path, _, part in _parts(facts):
        kind = part.get("type")
        known = _PART_FIELDS.get(kind) if isinstance(kind, str) else None
        for name in part:
            if known is not None and name not in known:
                yield Finding(f"{path}.{name}", name=name)


def excess_stops(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `stop` if it has too many sequences."""
    stop = facts.body.get("stop")
    if is_array(stop) and len(stop) > _MAX_STOPS:
        yield Finding("stop", count=len(stop), limit=_MAX_STOPS)


def long_labels(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `metadata` entries with a name or value that is too long."""
    labels = facts.body.get("metadata")
    for name, value in labels.items() if is_object(labels) else ():
        if len(name) > _MAX_LABEL_NAME_CHARS:
            yield Finding("metadata", count=len(name), limit=_MAX_LABEL_NAME_CHARS)
        elif isinstance(value, str) and len(value) > _MAX_LABEL_CHARS:
            yield Finding(f"metadata.{name}", count=len(value), limit=_MAX_LABEL_CHARS)


def excess_breakpoints(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the first cache breakpoint above the limit of four, with the total number."""
    marks = [
        path for path, _, part in _parts(facts) if part.get("prompt_cache_breakpoint") is not None
    ]
    if len(marks) > _MAX_MARKS:
        path = f"{marks[_MAX_MARKS]}.prompt_cache_breakpoint"
        yield Finding(path, count=len(marks), limit=_MAX_MARKS)


# Tools


def functions_beside_reasoning(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a reasoning effort other than `none` in a request with functions."""
    effort = facts.body.get("reasoning_effort")
    for _, tool in objects_at(facts.body.get("tools"), "tools"):
        if tool.get("type") == "function" and effort != "none":
            yield Finding("reasoning_effort", effort)
            return


def unknown_choices(facts: RequestFacts) -> Iterator[Finding]:
    """Yield tool names in `tool_choice` that are not in `tools`."""
    choice = facts.body.get("tool_choice")
    if not is_object(choice):
        return
    known = {_name_of(tool) for _, tool in objects_at(facts.body.get("tools"), "tools")}
    allowed = choice.get("allowed_tools")
    chosen = [("tool_choice", choice)]
    if is_object(allowed):
        chosen = list(objects_at(allowed.get("tools"), "tool_choice.allowed_tools.tools"))
    for path, tool in chosen:
        name = _name_of(tool)
        if name is not None and name not in known:
            yield Finding(path, name)


def _name_of(tool: dict[str, Any]) -> str | None:
    kind = tool.get("type")
    owner = tool.get(kind) if isinstance(kind, str) else None
    name = owner.get("name") if is_object(owner) else None
    return name if isinstance(name, str) else None


# Messages


def unanswered_calls(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages that follow a tool call before its result.

    The vendor accepts results only in the `tool` messages directly after the calls.
    """
    open_calls: dict[str, None] = {}
    for path, role, message in _messages_with_role(facts):
        if role == "tool":
            open_calls.pop(str(message.get("tool_call_id")), None)
            continue
        if open_calls:
            yield Finding(f"{path}.role", role, name=", ".join(open_calls))
        calls = message.get("tool_calls") if role == "assistant" else None
        open_calls = {str(call.get("id")): None for _, call in objects_at(calls, path)}
    if open_calls:
        yield Finding("messages", name=", ".join(open_calls))


def stray_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `tool` messages that answer no call of the previous assistant message."""
    open_calls: set[str] = set()
    for path, role, message in _messages_with_role(facts):
        if role != "tool":
            calls = message.get("tool_calls") if role == "assistant" else None
            open_calls = {str(call.get("id")) for _, call in objects_at(calls, path)}
        elif str(message.get("tool_call_id")) not in open_calls:
            yield Finding(f"{path}.role", role)


def missing_content(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages with neither content nor a field that replaces it."""
    for path, role, message in _messages_with_role(facts):
        if message.get("content") is not None:
            continue
        is_empty = role in _WITH_CONTENT or not any(message.get(name) for name in _NO_CONTENT)
        if is_empty and role != "function":
            yield Finding(f"{path}.content")


def images_of_others(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages of roles other than `user` that have images."""
    for path, role, message in _messages_with_role(facts):
        parts = objects_at(message.get("content"), path)
        if role != "user" and any(part.get("type") == _IMAGE for _, part in parts):
            yield Finding(path, name=role)


def unknown_parts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield parts whose type is illegal for the message's role."""
    for path, role, part in _parts(facts):
        kind, known = part.get("type"), _PARTS.get(role, ("text",))
        if kind not in known and not (kind == _IMAGE and role != "user"):
            quoted = [f"'{name}'" for name in known]
            listed = " and ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted)
            yield Finding(f"{path}.type", kind, name=listed)


def unknown_image_types(facts: RequestFacts) -> Iterator[Finding]:
    """Yield inline images whose media type is unknown."""
    for path, media_type, _ in _inline(facts, "image_url", "url"):
        if media_type not in _IMAGE_TYPES:
            yield Finding(path, media_type)


def broken_images(facts: RequestFacts) -> Iterator[Finding]:
    """Yield inline images whose data is not Base64."""
    for path, _, data in _inline(facts, "image_url", "url"):
        if not _is_base64(data):
            yield Finding(path)


def broken_files(facts: RequestFacts) -> Iterator[Finding]:
    """Yield files whose `file_data` is not a `data:` URL in Base64."""
    whole = {path for path, _, data in _inline(facts, "file", "file_data") if _is_base64(data)}
    for path, _, part in _parts(facts):
        file = part.get("file")
        place = f"{path}.file.file_data"
        if is_object(file) and isinstance(file.get("file_data"), str) and place not in whole:
            yield Finding(place)


def unknown_file_types(facts: RequestFacts) -> Iterator[Finding]:
    """Yield files of another media type than PDF."""
    for path, media_type, _ in _inline(facts, "file", "file_data"):
        if media_type != PDF:
            yield Finding(path, media_type)


def _inline(facts: RequestFacts, kind: str, field: str) -> Iterator[tuple[str, str, str | None]]:
    """Yield the path, media type and Base64 (None if invalid) of each `data:` URL in parts."""
    for path, _, part in _parts(facts):
        holder = part.get(kind)
        url = holder.get(field) if is_object(holder) else None
        if isinstance(url, str) and url[:5].lower() == "data:":
            head, _, data = url[5:].partition(",")
            media_type, *parameters = head.split(";")
            text = data if "base64" in parameters else None
            yield f"{path}.{kind}.{field}", media_type.lower(), text


def _is_base64(data: str | None) -> bool:
    if not data:
        return False
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


# Servers: reasoning


def calls_without_reasoning(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages that have calls but no `reasoning_content`."""
    for number, message in enumerate(_messages(facts)):
        if message.calls and not isinstance(message.value.get("reasoning_content"), str):
            yield Finding(f"{message.path}.reasoning_content", count=number)


def calls_without_details(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages that have calls but no `reasoning_details`."""
    for message in _messages(facts):
        if message.calls and not message.value.get("reasoning_details"):
            yield Finding(f"{message.path}.reasoning_details")


def unsigned_details(facts: RequestFacts) -> Iterator[Finding]:
    """Yield reasoning texts without a signature that Anthropic issued."""
    for message in _messages(facts):
        path = f"{message.path}.reasoning_details"
        for place, detail in objects_at(message.value.get("reasoning_details"), path):
            if detail.get("type") != "reasoning.text":
                continue
            signature = detail.get("signature")
            if not isinstance(signature, str) or not signature or _is_foreign(detail):
                yield Finding(f"{place}.signature", signature)


def _is_foreign(detail: dict[str, Any]) -> bool:
    """Return whether a reasoning detail's `format` names a vendor other than Anthropic."""
    return detail.get("format") not in (None, _ANTHROPIC_FORMAT)


# Servers: the order of messages


def no_user_message(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `messages` if no message has the role `user`."""
    messages = _messages(facts)
    if messages and all(message.role != "user" for message in messages):
        yield Finding("messages")


def user_after_tool(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `user` messages directly after a `tool` message."""
    before = ""
    for message in _messages(facts):
        if message.role == "user" and before == "tool":
            yield Finding(f"{message.path}.role", message.role)
        before = message.role


def orphan_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield results whose call is in no earlier message."""
    known: set[str] = set()
    for message in _messages(facts):
        known.update(id for call in message.calls if isinstance(id := call.get("id"), str))
        id = message.value.get("tool_call_id")
        if message.role == "tool" and isinstance(id, str) and id not in known:
            yield Finding(f"{message.path}.tool_call_id", id, name=id)


def late_system(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `system` messages after the first message."""
    for message in _messages(facts)[1:]:
        if message.role == "system":
            yield Finding(f"{message.path}.role", message.role)


def broken_alternation(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the first message that breaks the alternation of user and assistant.

    Chat templates skip a first `system` message, messages with calls, and `tool` messages.
    """
    expected = "user"
    for number, message in enumerate(_messages(facts)):
        if (message.role == "system" and not number) or message.role == "tool" or message.calls:
            continue
        if message.role != expected:
            yield Finding(f"{message.path}.role", message.role)
            return
        expected = "assistant" if expected == "user" else "user"


def json_without_the_word(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the messages if they do not name the JSON that the answer must be."""
    output = facts.body.get("response_format")
    asked = is_object(output) and output.get("type") == "json_object"
    if asked and "json" not in compact(facts.body.get("messages")).lower():
        yield Finding("messages")


def last_is_assistant(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the last message if it is an assistant message."""
    for message in _messages(facts)[-1:]:
        if message.role == "assistant":
            yield Finding(f"{message.path}.role", message.role)


def unmarked_prefill(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a trailing assistant message without `prefix`, the mark of a prefill."""
    for message in _messages(facts)[-1:]:
        if message.role == "assistant" and message.value.get("prefix") is not True:
            yield Finding(f"{message.path}.role", message.role)


# Servers: content


def empty_assistants(facts: RequestFacts) -> Iterator[Finding]:
    """Yield assistant messages with neither content nor calls."""
    for message in _messages(facts):
        if message.role == "assistant" and not message.calls and not message.value.get("content"):
            yield Finding(f"{message.path}.content")


def broken_arguments(facts: RequestFacts) -> Iterator[Finding]:
    """Yield arguments of calls that are not JSON."""
    for message in _messages(facts):
        for place, call in objects_at(
            message.value.get("tool_calls"), f"{message.path}.tool_calls"
        ):
            function = call.get("function")
            arguments = function.get("arguments") if is_object(function) else None
            if isinstance(arguments, str) and not _is_json(arguments):
                yield Finding(f"{place}.function.arguments", name=str(call.get("id")))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def excess_marks(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the first `cache_control` mark above the limit of four, with the total number."""
    marks: list[str] = []
    for place, tool in objects_at(facts.body.get("tools"), "tools"):
        marks += _marks(place, tool)
    for message in _messages(facts):
        marks += _marks(message.path, message.value)
        for place, part in objects_at(message.value.get("content"), f"{message.path}.content"):
            marks += _marks(place, part)
    if len(marks) > _MAX_MARKS:
        yield Finding(marks[_MAX_MARKS], count=len(marks), limit=_MAX_MARKS)


def _marks(path: str, part: dict[str, Any]) -> list[str]:
    return [f"{path}.cache_control"] if part.get("cache_control") is not None else []


def whole_answer(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `stream` if the request asks for a whole response."""
    if not facts.stream:
        yield Finding("stream", facts.body.get("stream"))


_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check
    for check in (
        broken_alternation,
        broken_arguments,
        broken_files,
        broken_images,
        calls_without_details,
        calls_without_reasoning,
        empty_assistants,
        excess_breakpoints,
        excess_marks,
        excess_stops,
        functions_beside_reasoning,
        images_of_others,
        json_without_the_word,
        last_is_assistant,
        late_system,
        long_labels,
        missing_content,
        no_user_message,
        orphan_results,
        stray_results,
        unanswered_calls,
        unknown_choices,
        unknown_file_types,
        unknown_image_types,
        unknown_message_fields,
        unknown_part_fields,
        unknown_parts,
        unmarked_prefill,
        unsigned_details,
        user_after_tool,
        whole_answer,
    )
}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return all request checks of Chat Completions by name."""
    return _CHECKS
