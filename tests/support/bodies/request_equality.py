"""Equality of requests by meaning, and the effect of named losses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Any

from msgspec import structs

from streamnorm import (
    Document,
    Image,
    InputMessage,
    OutputFormat,
    Reasoning,
    ReasoningOptions,
    RedactedReasoning,
    Refusal,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from streamnorm._core.blocks import InputBlock
from streamnorm._core.tools import AnyTool, ServerTool
from streamnorm.dialects.openai_responses.wire import ENCRYPTED_REASONING
from streamnorm.tools import CustomTool

__all__ = ["same", "without"]

_MINTED_ID = re.compile(r"call_(\d+_\d+|[0-9a-f]{24})")
_MINTED_ITEM = re.compile(r"(rs|msg|fc|ctc)_sn_.*")
_ERROR = re.compile(r"<tool_error>(.*)</tool_error>", re.DOTALL)

# What a request has to have in a dialect, whether it says so or not.
_FILLED: dict[str, dict[str, Any]] = {
    "openai_responses": {"store": False},
    "gemini": {"stream": False},
    "bedrock_converse": {"stream": False},
    "gemini_interactions": {"store": False},
}


# Dialects in which the schema of an answer is always enforced.
_ENFORCING = frozenset({"anthropic", "bedrock_converse", "gemini", "gemini_interactions"})


def same(request: Request, dialect: str) -> Request:
    """Return the canonical form of a request, equal for all requests of the same meaning.

    Consecutive messages of one role are one, as all vendors read them, and so are adjacent
    texts that nothing stands between.  Sources are left out, ids that were minted are numbered,
    and defaults that a dialect demands are written out.  What other parts of the request say
    already is left out: the name of a result's tool, and the value of a result beside its text.
    """
    ids: dict[str, str] = {}
    messages: list[InputMessage] = []
    for message in request.messages:
        blocks = tuple(_same_block(block, ids, dialect) for block in message.blocks)
        if dialect == "gemini_interactions":
            blocks = _with_signed_calls(blocks)
        extra = message.extra or None
        last = messages[-1] if messages else None
        if last is not None and (last.role, last.name, last.extra) == (
            message.role,
            message.name,
            extra,
        ):
            messages[-1] = structs.replace(last, blocks=_joined(last.blocks + blocks))
        else:
            messages.append(InputMessage(message.role, _joined(blocks), message.name, extra))
    filled = {
        name: value
        for name, value in _FILLED.get(dialect, {}).items()
        if getattr(request, name) is None
    }
    system = request.system
    if dialect == "gemini_interactions" and system:  # which is one text there
        system = (Text("\n\n".join([text.text for text in system])),)
    return structs.replace(
        request,
        system=system,
        messages=tuple(messages),
        tools=tuple(map(_same_tool, request.tools)),
        tool_choice=_same_choice(request.tool_choice),
        # Several calls are allowed unless a request says otherwise.
        parallel_tool_calls=request.parallel_tool_calls is not False,
        output=_same_output(request.output, dialect),
        reasoning=_same_reasoning(request.reasoning),
        betas=(),  # of which those of its fields are added
        extra=_without_encrypted(request.extra),
        source=None,
        **filled,
    )


def _without_encrypted(extra: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return extra fields without the `include` that a request which stores nothing gets."""
    own = dict((extra or {}).get("openai_responses", {}))
    if ENCRYPTED_REASONING not in (own.get("include") or ()):
        return extra
    own["include"] = [name for name in own["include"] if name != ENCRYPTED_REASONING]
    if not own["include"]:
        del own["include"]
    others = {name: value for name, value in (extra or {}).items() if name != "openai_responses"}
    return others | ({"openai_responses": own} if own else {}) or None


def _with_signed_calls(blocks: tuple[InputBlock, ...]) -> tuple[InputBlock, ...]:
    """Return blocks with an empty thought's signature moved to the next call."""
    signed: list[InputBlock] = []
    for block in blocks:
        last = signed[-1] if signed else None
        is_bare = isinstance(last, Reasoning) and last == Reasoning((), last.signature, "google")
        if isinstance(block, ToolCall) and block.signature is None and is_bare:
            signed.pop()
            signature = last.signature if isinstance(last, Reasoning) else None
            block = structs.replace(block, signature=signature, issuer="google")
        signed.append(block)
    return tuple(signed)


def _same_tool(tool: AnyTool) -> AnyTool:
    match tool:
        case Tool():
            return structs.replace(tool, strict=bool(tool.strict), source=None)
        case ServerTool():
            return structs.replace(tool, dialect="", data={}, extra=None, source=None)
        case _:
            return structs.replace(tool, source=None)


def _same_choice(choice: ToolChoice | None) -> ToolChoice | None:
    if choice == ToolChoice("auto"):
        return None
    if choice is not None and choice.mode == "required" and len(choice.names) == 1:
        return ToolChoice("named", choice.names, choice.kind)
    return choice


def _same_output(output: OutputFormat | None, dialect: str) -> OutputFormat | None:
    if output is None or output.kind == "text":
        return None
    if output.kind == "json_schema":
        name = None if output.name == "response" else output.name
        is_enforced = dialect in _ENFORCING if output.strict is None else output.strict
        return structs.replace(output, name=name, strict=is_enforced)
    return output


def _same_reasoning(options: ReasoningOptions | None) -> ReasoningOptions | None:
    """Return reasoning options without defaults of models."""
    if options is not None and options.mode == "adaptive":
        options = structs.replace(options, mode=None)
    return None if options == ReasoningOptions() else options


def _same_block(block: InputBlock, ids: dict[str, str], dialect: str) -> InputBlock:
    def known(id: str) -> str:
        return ids.setdefault(id, f"minted {len(ids)}") if _MINTED_ID.fullmatch(id) else id

    match block:
        case ToolCall():
            arguments = block.arguments
            if block.kind == "function":
                arguments = _same_arguments(arguments)
            extra = _without_items(block.extra)
            return structs.replace(block, id=known(block.id), arguments=arguments, extra=extra)
        case ToolResult():
            content = _joined(
                tuple(_same_block(item, ids, dialect) for item in block.content if item != Text())
            )
            is_error, content = _error(block.is_error, content)
            return structs.replace(
                block,
                tool_call_id=known(block.tool_call_id),
                content=content,
                is_error=is_error,
                name="",
                value=None,
            )
        case RedactedReasoning(data, issuer):
            return Reasoning((), data, issuer)
        case Reasoning() | Refusal() | Text():
            return structs.replace(block, extra=_without_items(block.extra))
        case Image(file_id=str(uri)) if dialect.startswith(
            "gemini"
        ):  # where files are named by their URI
            return structs.replace(block, url=uri, file_id=None, issuer=None, media_type=None)
        case Image(file_id=str(id)) if dialect == "openai_chat":  # which has files of any kind
            return Document(file_id=id, issuer=block.issuer, cache=block.cache, extra=block.extra)
        case Image():
            detail = None if block.detail == "auto" else block.detail
            return structs.replace(block, detail=detail, media_type=_media_type(block))
        case Document():
            title = None if block.title == "document.pdf" else block.title
            return structs.replace(block, title=title, media_type=_media_type(block))
        case _:
            return block


def _media_type(block: Image | Document) -> str | None:
    """Return a file's media type; None for a URL, whose type dialects lose."""
    return None if block.data is None else block.media_type


def _same_arguments(text: str) -> str:
    """Return arguments in canonical spelling, with numbers and order unchanged."""
    try:
        return json.dumps(json.loads(text if text.strip() else "{}"))
    except ValueError:
        return text


def _without_items(extra: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return extra fields without minted item ids and statuses."""
    own = (extra or {}).get("openai_responses", {})
    if not _MINTED_ITEM.fullmatch(own.get("id", "")):
        return extra
    left = {name: value for name, value in own.items() if name not in ("id", "status")}
    others = {name: value for name, value in (extra or {}).items() if name != "openai_responses"}
    return ({**others, "openai_responses": left} if left else others) or None


def _error(is_error: bool, content: tuple[Any, ...]) -> tuple[bool, tuple[Any, ...]]:
    """Return whether a result is an error, and its content without an error mark.

    The mark is around all texts of a result, which stand before its files then.
    """
    if content and isinstance(content[0], Text) and (found := _ERROR.fullmatch(content[0].text)):
        first = (structs.replace(content[0], text=found[1]),) if found[1] else ()
        is_error, content = True, (*first, *content[1:])
    if is_error:
        content = _joined(tuple(sorted(content, key=lambda item: not isinstance(item, Text))))
    return is_error, content


def _joined(blocks: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return blocks with adjacent texts joined, unless a cache mark or field separates them."""
    joined: list[Any] = []
    for block in blocks:
        last = joined[-1] if joined else None
        for kind in (Text, Refusal):
            if isinstance(block, kind) and isinstance(last, kind) and last == kind(text=last.text):
                joined[-1] = structs.replace(block, text=last.text + block.text)
                break
        else:
            joined.append(block)
    return tuple(joined)


def without(request: Request, features: Collection[str]) -> Request:
    """Return a request without the features that a writer lost."""
    for feature in sorted(features, key=lambda name: name == "order_lost"):  # of all that is left
        request = _WITHOUT[feature](request)
    return request


def _blocks(change: Callable[[InputBlock], InputBlock | None]) -> Callable[[Request], Request]:
    """Return a function that changes all blocks of a request, including those in results."""

    def changed(block: InputBlock) -> InputBlock | None:
        if isinstance(block, ToolResult):
            content: Any = _joined(tuple(filter(None, map(changed, block.content))))
            block = structs.replace(block, content=content)
        return change(block)

    def apply(request: Request) -> Request:
        messages = tuple(
            structs.replace(
                message, blocks=_joined(tuple(filter(None, map(changed, message.blocks))))
            )
            for message in request.messages
        )
        return structs.replace(request, messages=messages)

    return apply


def _field(**values: Any) -> Callable[[Request], Request]:
    return lambda request: structs.replace(request, **values)


def _output(**values: Any) -> Callable[[Request], Request]:
    def apply(request: Request) -> Request:
        assert request.output is not None
        return structs.replace(request, output=structs.replace(request.output, **values))

    return apply


def _in_order(request: Request) -> Request:
    """Return a request with each message's blocks sorted by kind."""

    def ordered(blocks: tuple[Any, ...]) -> tuple[Any, ...]:
        def place(block: InputBlock) -> tuple[bool, bool]:
            return type(block) is not Text, type(block) is not Reasoning

        return _joined(tuple(sorted(blocks, key=place)))

    def result(block: InputBlock) -> InputBlock:
        if isinstance(block, ToolResult):
            return structs.replace(block, content=ordered(block.content))
        return block

    messages = tuple(
        structs.replace(message, blocks=ordered(tuple(map(result, message.blocks))))
        for message in request.messages
    )
    return structs.replace(request, messages=messages)


def _as_document(block: InputBlock) -> InputBlock:
    if isinstance(block, Image) and block.file_id is not None:
        return Document(
            file_id=block.file_id, issuer=block.issuer, cache=block.cache, extra=block.extra
        )
    return block


def _as_doubles(block: InputBlock) -> InputBlock:
    if isinstance(block, ToolCall) and block.kind == "function":
        value = json.loads(block.arguments, parse_int=float)
        return structs.replace(block, arguments=json.dumps(value))
    return block


def _without_title(block: InputBlock) -> InputBlock:
    return structs.replace(block, title=None) if isinstance(block, Document) else block


def _with_error_text(block: InputBlock) -> InputBlock:
    """Return a result that is an error and has no content with a text."""
    if not isinstance(block, ToolResult) or not block.is_error:
        return block
    if any(not isinstance(item, Text) or item.text.strip() for item in block.content):
        return block
    return structs.replace(block, content=(Text("The tool failed and returned no content."),))


def _with_document_texts(request: Request) -> Request:
    """Return a request with a text added to messages that only have documents."""

    def named(message: InputMessage) -> InputMessage:
        count = sum(isinstance(block, Document) for block in message.blocks)
        has_text = any(isinstance(b, Text) and not b.citations for b in message.blocks)
        if not count or has_text:
            return message
        text = Text("[document]" if count == 1 else f"[{count} documents]")
        return structs.replace(message, blocks=(*message.blocks, text))

    return structs.replace(request, messages=tuple(map(named, request.messages)))


def _with_called_tools(request: Request) -> Request:
    """Return a request with declarations of the called tools."""
    calls = [call.name for message in request.messages for call in message.tool_calls]
    tools = tuple(Tool(name, None, {"type": "object"}) for name in dict.fromkeys(calls))
    return structs.replace(request, tools=tools)


def _without_summary(request: Request) -> Request:
    if request.reasoning is None:
        return request
    shown = structs.replace(request.reasoning, show=None)
    return structs.replace(request, reasoning=None if shown == ReasoningOptions() else shown)


def _without_deferral(request: Request) -> Request:
    tools = tuple(
        structs.replace(tool, deferred=False) if isinstance(tool, Tool | CustomTool) else tool
        for tool in request.tools
    )
    return structs.replace(request, tools=tools)


def _without_trailing_white_space(request: Request) -> Request:
    *others, last = request.messages
    *before, text = last.blocks
    if isinstance(text, Text):
        last = structs.replace(
            last, blocks=(*before, structs.replace(text, text=text.text.rstrip()))
        )
    return structs.replace(request, messages=(*others, last))


def _without_strict(request: Request) -> Request:
    tools = tuple(
        structs.replace(tool, strict=False) if isinstance(tool, Tool) else tool
        for tool in request.tools
    )
    return structs.replace(request, tools=tools)


_WITHOUT: dict[str, Callable[[Request], Request]] = {
    "allowed_tools_filtered": _field(tools=(), tool_choice=None),
    "boundaries": lambda request: request,  # which `same` ignores
    "cache_mark_dropped": _blocks(lambda block: structs.replace(block, cache=None)),
    "document_renamed": _blocks(_without_title),
    "document_text_added": _with_document_texts,
    "error_text_added": _blocks(_with_error_text),
    "tool_declared": _with_called_tools,
    "deferred_tool_loaded": _without_deferral,
    "image_as_file": _blocks(_as_document),
    "media_type_guessed": lambda request: request,  # which `same` leaves out
    "number_precision": _blocks(_as_doubles),
    "order_lost": _in_order,
    "parallel_tool_calls": _field(parallel_tool_calls=True),
    "reasoning_summary": _without_summary,
    "schema_name": _output(name=None),
    "schema_strict": _output(strict=False),
    "signature_placeholder": lambda request: request,  # which no reader takes for a signature
    "strict": _without_strict,
    "title": _blocks(_without_title),
    "tool_choice": _field(tool_choice=None),
    "tool_choice_weakened": _field(tool_choice=None),
    "trailing_white_space": _without_trailing_white_space,
}
"""What a request has left after a loss that only a room's writer can know, by its feature."""
