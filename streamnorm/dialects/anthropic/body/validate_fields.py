"""Checks of a request's fields (unknown, beta, missing), and iterators over its parts.

https://platform.claude.com/docs/en/api/messages and the types of the official SDK, beta types
included (read 2026-11-22).  A part has two addresses: its path in the body, and its location as
the vendor's messages spell it, such as `messages.0.content.1.text`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.json import is_array, is_object, string_of

# Fields of the body that need a beta, by prefixes of the betas' names.
_BODY_BETAS = {
    "billing_policy": ("user-profiles-",),
    "compaction": ("compact-",),
    "context_management": ("context-management-", "compact-"),
    "fallback_credit_token": ("fallback-credit-",),
    "fallbacks": ("server-side-fallback-",),
    "mcp_servers": ("mcp-client-",),
    "output_format": ("structured-outputs-",),
    "safeguards": ("dangerous-tool-use-",),
    "thread": ("message-threads-",),
}
_MESSAGES = {
    "assistant": frozenset({"role", "content"}),
    "user": frozenset({"role", "content"}),
    "system": frozenset({"role", "content", "clear_at", "output_config"}),
}
_SYSTEM_BETAS = {
    "clear_at": ("mid-conversation-system-clear-at-",),
    # Claude Code 2.1.330 enables it by the second name.
    "output_config": ("mid-conversation-output-config-", "per-turn-control-"),
}

_RESULT = "type tool_use_id content cache_control"
_REQUIRED_IN_BLOCKS: Mapping[str, tuple[str, ...]] = {
    "document": ("source",),
    "image": ("source",),
    "mcp_tool_result": ("tool_use_id",),
    "mcp_tool_use": ("id", "input", "name", "server_name"),
    "redacted_thinking": ("data",),
    "search_result": ("content", "source", "title"),
    "server_tool_use": ("id", "input", "name"),
    "text": ("text",),
    "thinking": ("signature", "thinking"),
    "tool_reference": ("tool_name",),
    "tool_result": ("tool_use_id",),
    "tool_use": ("id", "input", "name"),
    "web_fetch_tool_result": ("content", "tool_use_id"),
    "web_search_tool_result": ("content", "tool_use_id"),
}
_SOURCES: Mapping[str, frozenset[str]] = {
    "base64": frozenset({"type", "media_type", "data"}),
    "text": frozenset({"type", "media_type", "data"}),
    "url": frozenset({"type", "url"}),
    "file": frozenset({"type", "file_id"}),
    "content": frozenset({"type", "content"}),
}
_MARK = frozenset({"type", "ttl"})
# Claude Code sends `scope`.
_MARK_BETAS = {"scope": ("prompt-caching-scope-",)}
_TOOL_CHOICES: Mapping[str, frozenset[str]] = {
    "auto": frozenset({"type", "disable_parallel_tool_use"}),
    "any": frozenset({"type", "disable_parallel_tool_use"}),
    "tool": frozenset({"type", "disable_parallel_tool_use", "name"}),
    "none": frozenset({"type"}),
}
_THINKING: Mapping[str, frozenset[str]] = {
    "adaptive": frozenset({"type", "display", "block_binding"}),
    "between_tools": frozenset({"type"}),
    "disabled": frozenset({"type"}),
    "enabled": frozenset({"type", "budget_tokens", "display", "block_binding"}),
}
_THINKING_BETAS = {"block_binding": ("thinking-binding-controls-",)}
_OUTPUT = frozenset({"effort", "format", "task_budget"})
_OUTPUT_BETAS = {"task_budget": ("task-budgets-",)}
_FORMAT = frozenset({"type", "schema"})


class Message(NamedTuple):
    """A message of a request.

    Attributes:
        number: Position in `messages`.
        role: Role; "" if it is missing.
        blocks: Content blocks; a string content is one text block.
        value: The JSON object.
    """

    number: int
    role: str
    blocks: tuple[dict[str, Any], ...]
    value: dict[str, Any]


class Block(NamedTuple):
    """A content block of a request.

    Attributes:
        path: Path in the body.
        location: Location in the vendor's spelling, without the type.
        type: Type; "" if it is missing.
        value: The JSON object.
        role: Role of the message; `system` in the system prompt.
        in_result: Whether the block stands in the content of a `tool_result`.
    """

    path: str
    location: str
    type: str
    value: dict[str, Any]
    role: str
    in_result: bool = False

    @property
    def typed_location(self) -> str:
        """Location followed by the block type, as in the vendor's error messages."""
        return f"{self.location}.{self.type}"


def messages_of(body: dict[str, Any]) -> list[Message]:
    """Return the messages of a request that are objects."""
    found: list[Message] = []
    values = body.get("messages")
    for number, value in enumerate(values if is_array(values) else ()):
        if is_object(value):
            role, content = value.get("role"), value.get("content")
            blocks: tuple[dict[str, Any], ...] = ()
            if isinstance(content, str):
                blocks = ({"type": "text", "text": content},)
            elif is_array(content):
                blocks = tuple(block for block in content if is_object(block))
            found.append(Message(number, role if isinstance(role, str) else "", blocks, value))
    return found


def blocks_of(body: dict[str, Any]) -> Iterator[Block]:
    """Yield the content blocks of a request in the vendor's reading order."""
    yield from _walk_blocks(body.get("system"), "system", "system", "system")
    messages = body.get("messages")
    for number, message in enumerate(messages if is_array(messages) else ()):
        if is_object(message):
            role = message.get("role")
            yield from _walk_blocks(
                message.get("content"),
                f"messages[{number}].content",
                f"messages.{number}.content",
                role if isinstance(role, str) else "",
            )


def _walk_blocks(content: Any, path: str, location: str, role: str) -> Iterator[Block]:
    for number, value in enumerate(content if is_array(content) else ()):
        if not is_object(value):
            continue
        block = Block(
            f"{path}[{number}]", f"{location}.{number}", string_of(value, "type"), value, role
        )
        yield block
        if block.type == "tool_result":
            for inner in _walk_blocks(
                value.get("content"),
                f"{block.path}.content",
                f"{block.typed_location}.content",
                role,
            ):
                yield inner._replace(in_result=True)


def tools_of(body: dict[str, Any]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield position, type and value of each tool; a tool without a type is `custom`."""
    tools = body.get("tools")
    for number, value in enumerate(tools if is_array(tools) else ()):
        if is_object(value):
            yield number, string_of(value, "type") or "custom", value


def betas_of(facts: RequestFacts) -> frozenset[str]:
    """Return the names of the betas that a request enables, in its header or its body."""
    names = facts.headers.get("anthropic-beta", "").split(",")
    listed = facts.body.get("anthropic_beta")
    if is_array(listed):
        names += [name for name in listed if isinstance(name, str)]
    return frozenset(name.strip() for name in names)


def has_beta(facts: RequestFacts, *prefixes: str) -> bool:
    """Return whether a request enables a beta whose name begins with one of the prefixes."""
    return any(name.startswith(prefixes) for name in betas_of(facts))


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BODY = _names(
    "cache_control container diagnostics inference_geo max_tokens messages metadata model "
    "output_config service_tier speed stop_sequences stream system temperature thinking "
    "tool_choice tools top_k top_p"
)


# Clouds want the version in the body and the model in their URL.
_CLOUD_BODY = {"vertex": (_BODY | {"anthropic_version"}) - {"model"}}


_BLOCKS: Mapping[str, frozenset[str]] = {
    kind: _names(names)
    for kind, names in {
        "advisor_tool_result": _RESULT,
        "bash_code_execution_tool_result": _RESULT,
        "code_execution_tool_result": _RESULT,
        "compaction": "type cache_control content encrypted_content signature tool_changes",
        "container_upload": "type cache_control file_id",
        "document": "type cache_control citations context source title",
        "fallback": "type from to trigger",
        "image": "type cache_control source transformations",
        "mcp_tool_listing": "type mcp_server_name tools",
        "mcp_tool_result": f"{_RESULT} is_error",
        "mcp_tool_use": "type cache_control id input name server_name",
        "redacted_thinking": "type data",
        "search_result": "type cache_control citations content source title",
        "server_tool_use": "type cache_control caller id input name",
        "text": "type cache_control citations text",
        "text_editor_code_execution_tool_result": _RESULT,
        "thinking": "type signature thinking",
        "tool_addition": "type cache_control tool",
        "tool_reference": "type cache_control tool_name",
        "tool_removal": "type cache_control tool",
        "tool_result": f"{_RESULT} is_error toolset_name",
        "tool_search_tool_result": _RESULT,
        "tool_use": "type cache_control caller id input name toolset_name",
        "web_fetch_tool_result": f"{_RESULT} caller",
        "web_search_tool_result": f"{_RESULT} caller",
    }.items()
}


_TOOL = _names(
    "type name description input_schema allowed_callers cache_control defer_loading "
    "eager_input_streaming input_examples strict"
)


def unknown_fields(facts: RequestFacts) -> Iterator[Finding]:
    """Yield fields that the vendor does not know.

    The API refuses them: "Extra inputs are not permitted" (anthropics/claude-code#19513).
    """
    body = facts.body
    if facts.server != "bedrock":  # a rule of its own lists the fields of Bedrock's body
        known = _CLOUD_BODY.get(facts.server or "", _BODY) | _BODY_BETAS.keys()
        yield from _find_unknown(body, known, "", "")
    for message in messages_of(body):
        if message.role in _MESSAGES:
            place = f"messages[{message.number}]", f"messages.{message.number}"
            yield from _find_unknown(message.value, _MESSAGES[message.role], *place)
    for block in blocks_of(body):
        if block.type in _BLOCKS:
            location = block.location if block.role == "system" else block.typed_location
            yield from _find_unknown(block.value, _BLOCKS[block.type], block.path, location)
            yield from _unknown_in_source(block)
            yield from _unknown_in_mark(block.value, block.path, location)
    for number, kind, tool in tools_of(body):
        path, location = f"tools[{number}]", f"tools.{number}.{kind}"
        if kind == "custom":
            yield from _find_unknown(tool, _TOOL, path, location)
        yield from _unknown_in_mark(tool, path, location)
    yield from _unknown_in_mark(body, "", "")
    yield from _unknown_in_options(body)


def _unknown_in_options(body: dict[str, Any]) -> Iterator[Finding]:
    for name, variants in (("thinking", _THINKING), ("tool_choice", _TOOL_CHOICES)):
        value = body.get(name)
        kind = value.get("type") if is_object(value) else None
        if is_object(value) and isinstance(kind, str) and kind in variants:
            yield from _find_unknown(value, variants[kind], name, f"{name}.{kind}")
    for name, known in (("output_config", _OUTPUT), ("metadata", {"user_id"})):
        if is_object(value := body.get(name)):
            yield from _find_unknown(value, known, name, name)
    config = body.get("output_config")
    if is_object(config) and is_object(form := config.get("format")):
        yield from _find_unknown(form, _FORMAT, "output_config.format", "output_config.format")


def _unknown_in_source(block: Block) -> Iterator[Finding]:
    source = block.value.get("source")
    if not is_object(source):
        return
    kind = source.get("type")
    if isinstance(kind, str) and kind in _SOURCES:
        location = f"{block.typed_location}.source.{kind}"
        yield from _find_unknown(source, _SOURCES[kind], f"{block.path}.source", location)


def _unknown_in_mark(holder: dict[str, Any], path: str, location: str) -> Iterator[Finding]:
    mark = holder.get("cache_control")
    if is_object(mark) and mark.get("type") == "ephemeral":
        where = _join_path(location, "cache_control.ephemeral")
        known = _MARK | _MARK_BETAS.keys()
        yield from _find_unknown(mark, known, _join_path(path, "cache_control"), where)


def _find_unknown(
    holder: dict[str, Any], known: Collection[str], path: str, location: str
) -> Iterator[Finding]:
    for name in holder:
        if name not in known:
            yield Finding(_join_path(path, name), name=_join_path(location, name))


def _join_path(holder: str, name: str) -> str:
    return f"{holder}.{name}" if holder else name


def beta_fields(facts: RequestFacts) -> Iterator[Finding]:
    """Yield fields whose beta the request does not enable."""
    body = facts.body
    yield from _find_missing_betas(facts, body, _BODY_BETAS, "", "")
    for message in messages_of(body):
        if message.role == "system":
            place = f"messages[{message.number}]", f"messages.{message.number}"
            yield from _find_missing_betas(facts, message.value, _SYSTEM_BETAS, *place)
    for name, betas in (("thinking", _THINKING_BETAS), ("output_config", _OUTPUT_BETAS)):
        if is_object(value := body.get(name)):
            yield from _find_missing_betas(facts, value, betas, name, name)
    for path, location, holder in _cacheable_parts(body):
        mark = holder.get("cache_control")
        if is_object(mark):
            where = _join_path(location, "cache_control.ephemeral")
            path = _join_path(path, "cache_control")
            yield from _find_missing_betas(facts, mark, _MARK_BETAS, path, where)


def _cacheable_parts(body: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the path, location and value of each part that can have a cache mark."""
    yield "", "", body
    for number, kind, tool in tools_of(body):
        yield f"tools[{number}]", f"tools.{number}.{kind}", tool
    for block in blocks_of(body):
        location = block.location if block.role == "system" else block.typed_location
        yield block.path, location, block.value


def _find_missing_betas(
    facts: RequestFacts,
    holder: dict[str, Any],
    betas: Mapping[str, tuple[str, ...]],
    path: str,
    location: str,
) -> Iterator[Finding]:
    for name, prefixes in betas.items():
        if holder.get(name) is not None and not has_beta(facts, *prefixes):
            yield Finding(_join_path(path, name), name=_join_path(location, name))


def missing_fields(facts: RequestFacts) -> Iterator[Finding]:
    """Yield required fields that are missing or null."""
    body = facts.body
    in_url = facts.server in ("bedrock", "vertex")
    names = ("messages", "anthropic_version" if in_url else "model", "max_tokens")
    yield from _find_missing(body, names, "", "")
    values = body.get("messages")
    for number, value in enumerate(values if is_array(values) else ()):
        if is_object(value):
            place = f"messages[{number}]", f"messages.{number}"
            # A system message without content may change the effort alone.
            is_system = value.get("role") == "system"
            yield from _find_missing(value, ("role",) if is_system else ("role", "content"), *place)
    for block in blocks_of(body):
        names_within = _REQUIRED_IN_BLOCKS.get(block.type, ())
        yield from _find_missing(block.value, names_within, block.path, block.typed_location)
    for number, kind, tool in tools_of(body):
        if kind == "custom":
            place = f"tools[{number}]", f"tools.{number}.{kind}"
            yield from _find_missing(tool, ("name", "input_schema"), *place)
    thinking = body.get("thinking")
    if is_object(thinking) and thinking.get("type") == "enabled":
        yield from _find_missing(thinking, ("budget_tokens",), "thinking", "thinking.enabled")


def _find_missing(
    holder: dict[str, Any], names: Collection[str], path: str, location: str
) -> Iterator[Finding]:
    for name in names:
        if holder.get(name) is None:
            yield Finding(_join_path(path, name), name=_join_path(location, name))
