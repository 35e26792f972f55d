"""Requests generated from the SDKs' types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from support.bodies.sdk_types import request_type
from support.bodies.type_cases.answers import GEMINI_MODIFIERS, gemini_call_parts
from support.bodies.type_cases.case import JSON, Case, cases_of, element_type
from support.bodies.type_cases.interactions import interaction_request_cases
from support.bodies.type_cases.walk import (
    ABSENT,
    fields_of,
    label_of,
    members,
    minimal,
    variants,
    with_member,
)

__all__ = ["request_cases"]

TOOL = "name_A"
# A choice of either names a tool of the request.
TOOLS = (TOOL, "name_B")
_CALL_ID = "call_1"
_USER: JSON = {"role": "user", "content": "Hi"}


def request_cases(dialect: str, *, beta: bool = False) -> Iterator[Case]:
    """Yield a request for each member, literal and field of the SDK's type.

    Args:
        dialect: Its dialect.
        beta: Whether the types are those of Anthropic's betas.
    """
    yield from {
        "openai_chat": _chat,
        "openai_responses": _responses,
        "anthropic": partial(_anthropic, beta=beta),
        "gemini": _gemini,
        "gemini_interactions": interaction_request_cases,
    }[dialect]()


def _options(
    dialect: str,
    base: JSON,
    expected: Any,
    companions: Callable[[str], JSON],
    left_out: frozenset[str],
) -> Iterator[Case]:
    """Yield the cases of all top-level fields of a body.

    Args:
        dialect: The dialect.
        base: The least body.
        expected: Type of the body.
        companions: Returns the fields that must stand beside the thing at a path.
        left_out: Fields with cases of their own.
    """
    for name, field in (fields_of(expected) or {}).items():
        if name in left_out:
            continue
        for variant in variants(bool if name == "stream" else field.expected, name):
            whole = {**base, **companions(name + variant.path)}
            yield from cases_of(dialect, name, [variant], partial(with_member, whole, name))


# Chat Completions

_CHAT: JSON = {"model": "m", "messages": [_USER]}
_CHAT_TOOLS: list[JSON] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in TOOLS
]
_CHAT_CUSTOMS: list[JSON] = [{"type": "custom", "custom": {"name": name}} for name in TOOLS]
_CHAT_CALL: JSON = {
    "id": _CALL_ID,
    "type": "function",
    "function": {"name": TOOL, "arguments": "{}"},
}


def _chat_companions(path: str) -> JSON:
    name = path.split(".")[0].split("[")[0].split("=")[0]
    match name:
        case "tool_choice":
            return {"tools": _CHAT_CUSTOMS if "custom" in path else _CHAT_TOOLS}
        case "parallel_tool_calls":
            return {"tools": _CHAT_TOOLS}
        case "function_call":
            return {"functions": [tool["function"] for tool in _CHAT_TOOLS]}
        case "top_logprobs":
            return {"logprobs": True}
        case "stream_options":
            return {"stream": True}
        case "audio":
            return {"modalities": ["text", "audio"]}
        case _:
            return {}


def _chat() -> Iterator[Case]:
    expected = request_type("openai_chat")
    left_out = frozenset({"messages"})
    yield from _options("openai_chat", _CHAT, expected, _chat_companions, left_out)
    messages = fields_of(expected)["messages"].expected
    for message in members(element_type(messages)):
        role = label_of(message)
        build = partial(_chat_body, role)
        yield from cases_of("openai_chat", f"messages[{role}]", variants(message), build)


def _chat_body(role: str, message: Any) -> JSON:
    if message is ABSENT:
        return _CHAT
    match role:
        case "tool":
            before = [_USER, {"role": "assistant", "tool_calls": [_CHAT_CALL]}]
            return {**_CHAT, "messages": [*before, message]}
        case "function":
            call = {"name": message["name"], "arguments": "{}"}
            before = [_USER, {"role": "assistant", "content": None, "function_call": call}]
            return {**_CHAT, "messages": [*before, message]}
        case "assistant":
            if not message.keys() & {"content", "tool_calls", "refusal", "audio", "function_call"}:
                message = {**message, "content": "Done."}
            results: list[JSON] = [
                {"role": "tool", "tool_call_id": call["id"], "content": "ok"}
                for call in message.get("tool_calls", ())
            ]
            if call := message.get("function_call"):
                results = [{"role": "function", "name": call["name"], "content": "ok"}]
            return {**_CHAT, "messages": [_USER, message, *results, _USER]}
        case "user":
            return {**_CHAT, "messages": [_USER, message]}
        case _:
            return {**_CHAT, "messages": [message, _USER]}


# Responses

_RESPONSES: JSON = {"model": "m", "input": [_USER]}
_ANSWER = {"type": "message", "role": "assistant", "content": "Done."}
# A tool that a target lacks is refused if it is the only one.
_RESPONSES_FUNCTION: JSON = {
    "type": "function",
    "name": "name_Z",
    "parameters": {"type": "object"},
    "strict": None,
}


def _responses() -> Iterator[Case]:
    expected = request_type("openai_responses")
    left_out = frozenset({"input", "tools"})
    companions = _responses_companions
    yield from _options("openai_responses", _RESPONSES, expected, companions, left_out)
    tools = variants(fields_of(expected)["tools"].expected, "tools")
    yield from cases_of("openai_responses", "tools", tools, _responses_with_tools)
    items = fields_of(expected)["input"].expected
    yield from cases_of(
        "openai_responses",
        "input",
        variants(str, "text"),
        lambda text: {"model": "m", "input": "Hi" if text is ABSENT else text},
    )
    for item in members(element_type(items)):
        name = (
            f"{label_of(item)} {item.__name__}" if label_of(item) == "message" else label_of(item)
        )
        kind = label_of(item)
        build = partial(_responses_body, kind)
        # A call may be lost while its output is not, and an output while its call is not.
        least = build(ABSENT)
        alone = {**least, "input": [_USER, *_companions_of(kind), _USER]}
        yield from cases_of("openai_responses", f"input[{name}]", variants(item), build, alone)


def _responses_tools(kind: str) -> list[JSON]:
    tools = members(element_type(fields_of(request_type("openai_responses"))["tools"].expected))
    by_kind = {label_of(tool): tool for tool in tools}
    named = {"web_search_preview": "WebSearchPreviewTool"}.get(kind, kind)
    tool: JSON = minimal(by_kind[named])
    names = [name for name in ("name", "server_label") if name in tool]
    return [tool, *({**tool, name: f"{name}_B"} for name in names)]


def _responses_with_tools(tools: Any) -> JSON:
    """Return a request with tools, and a function for targets that lack them."""
    if tools is None:
        return {**_RESPONSES, "tools": None}
    return {**_RESPONSES, "tools": [*([] if tools is ABSENT else tools), _RESPONSES_FUNCTION]}


def _responses_companions(path: str) -> JSON:
    if path.startswith("tool_choice"):
        if "tools" in path or ("=" not in path and "[" not in path):
            return {"tools": _responses_tools("function")}
        for kind in ("custom", "mcp", "apply_patch", "programmatic_tool_calling"):
            if f"[{kind}]" in path:
                return {"tools": _responses_tools(kind)}
        if ".type=" in path:
            kind = path.rpartition("=")[2]
            preview = kind.startswith("web_search_preview")
            kind = {"computer_use": "computer"}.get(kind, kind)
            return {"tools": _responses_tools("web_search_preview" if preview else kind)}
        if "[shell]" in path or "[local_shell]" in path:
            return {"tools": _responses_tools("shell")}
        return {"tools": _responses_tools("function")}
    if path.startswith("parallel_tool_calls"):
        return {"tools": _responses_tools("function")}
    if path.startswith("max_tool_calls"):
        return {"tools": _responses_tools("image_generation")}
    if path.startswith("stream_options"):
        return {"stream": True}
    if path.startswith("background_options"):
        return {"background": True}
    return {}


_OUTPUTS_OF = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "mcp_approval_request": "mcp_approval_response",
    "program": "program_output",
    "tool_search_call": "tool_search_output",
}


def _responses_body(kind: str, item: Any) -> JSON:
    """Return a request with an item, and its matching call or output."""
    companions = _companions_of(kind)
    held = [item, *companions] if kind in _OUTPUTS_OF else [*companions, item]
    if item is ABSENT:
        held = []
    after = [_ANSWER] if kind == "reasoning" else []
    has_tools = kind in ("additional_tools", "tool_search_output")
    tools = {"tools": [_RESPONSES_FUNCTION]} if has_tools else {}
    return {**_RESPONSES, **tools, "input": [_USER, *held, *after, _USER]}


def _companions_of(kind: str) -> list[JSON]:
    """Return the output for a call, or the call for an output."""
    if kind in _OUTPUTS_OF:
        return [_item(_OUTPUTS_OF[kind])]
    return [_item(call) for call, output in _OUTPUTS_OF.items() if output == kind]


def _item(kind: str) -> JSON:
    items = members(element_type(fields_of(request_type("openai_responses"))["input"].expected))
    item: JSON = next(minimal(item) for item in items if label_of(item) == kind)
    return item


# Anthropic

_ANTHROPIC: JSON = {"model": "m", "max_tokens": 4096, "messages": [_USER]}
_ANTHROPIC_TOOL: JSON = {"name": TOOL, "input_schema": {"type": "object"}}
_ANTHROPIC_FUNCTION: JSON = {**_ANTHROPIC_TOOL, "name": "name_Z"}
_TEXT: JSON = {"type": "text", "text": "Hi"}
_TOOL_USE: JSON = {"type": "tool_use", "id": _CALL_ID, "name": TOOL, "input": {}}
_TOOL_RESULT: JSON = {"type": "tool_result", "tool_use_id": "id_A", "content": "ok"}
_ASSISTANT_BLOCKS = frozenset(
    {
        "thinking",
        "redacted_thinking",
        "tool_use",
        "server_tool_use",
        "mcp_tool_use",
        "mcp_tool_result",
        "mcp_tool_listing",
        "compaction",
        "fallback",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "advisor_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
    }
)


def _anthropic_companions(path: str) -> JSON:
    if path.startswith("tool_choice"):
        return {"tools": [{**_ANTHROPIC_TOOL, "name": name} for name in TOOLS]}
    return {}


def _anthropic(*, beta: bool) -> Iterator[Case]:
    expected = request_type("anthropic", beta=beta)
    # Headers, which the SDK has beside the fields of the body.
    headers = {"betas", "user_profile_id", "workspace_id"}
    left_out = frozenset({"messages", "tools"} | headers)
    tools = variants(fields_of(expected)["tools"].expected, "tools")
    yield from cases_of("anthropic", "tools", tools, _anthropic_tools)
    yield from _options("anthropic", _ANTHROPIC, expected, _anthropic_companions, left_out)
    for message in members(element_type(fields_of(expected)["messages"].expected)):
        role = label_of(message)
        fields = fields_of(message) or {}
        prefix = f"messages[{role}]"
        build = partial(_anthropic_message, role, "content")
        yield from cases_of("anthropic", f"{prefix}.content", variants(str, "text"), build)
        for name in fields.keys() - {"role", "content"}:
            build = partial(_anthropic_message, role, name)
            found = variants(fields[name].expected, name)
            yield from cases_of("anthropic", f"{prefix}.{name}", found, build)
        for block in members(element_type(fields["content"].expected)):
            kind = label_of(block)
            build = partial(_anthropic_block, role, kind)
            found = variants(block)
            # The type has blocks in messages of either role.  Of the role that the API has none
            # in, one is enough.
            if role == ("user" if kind in _ASSISTANT_BLOCKS else "assistant") and kind != "text":
                found = islice(found, 1)
            yield from cases_of("anthropic", f"{prefix}.content[{kind}]", found, build)


def _anthropic_tools(tools: Any) -> JSON:
    """Return a request with tools, and the servers of its toolsets."""
    if tools is ABSENT:
        return {**_ANTHROPIC, "tools": [_ANTHROPIC_FUNCTION]}
    if tools is None:
        return {**_ANTHROPIC, "tools": None}
    servers = [
        {"type": "url", "name": tool["mcp_server_name"], "url": "https://example.com/mcp"}
        for tool in tools
        if tool.get("type") == "mcp_toolset"
    ]
    tools = [*tools, _ANTHROPIC_FUNCTION]
    return {**_ANTHROPIC, "tools": tools, **({"mcp_servers": servers} if servers else {})}


def _anthropic_message(role: str, name: str, value: Any) -> JSON:
    message = with_member({"role": role, "content": "Be brief."}, name, value)
    match role:
        case "user":
            return {**_ANTHROPIC, "messages": [message]}
        case _:
            return {**_ANTHROPIC, "messages": [_USER, message]}


def _anthropic_block(role: str, kind: str, block: Any) -> JSON:
    held = [] if block is ABSENT else [block]
    match role:
        case "user":
            if kind == "tool_result" and held:
                calls = {"role": "assistant", "content": [_TOOL_USE]}
                answer = {"role": "user", "content": [*held, _TEXT]}
                return {**_ANTHROPIC, "messages": [_USER, calls, answer]}
            return {**_ANTHROPIC, "messages": [{"role": "user", "content": [_TEXT, *held]}]}
        case "system":
            message = {"role": "system", "content": [_TEXT, *held]}
            return {**_ANTHROPIC, "messages": [_USER, message]}
        case _:
            before: list[JSON] = []
            if kind.endswith("_tool_result") and held:
                name = kind.removesuffix("_tool_result")
                name = {"tool_search": "tool_search_tool_regex"}.get(name, name)
                before = [{"type": "server_tool_use", "id": _CALL_ID, "name": name, "input": {}}]
                if kind == "mcp_tool_result":
                    before[0] |= {"type": "mcp_tool_use", "server_name": "s"}
            content = [*before, *held, {"type": "text", "text": "Done."}]
            if kind == "tool_use":
                content = [content[-1], *held]
            results = [_TOOL_RESULT] if kind == "tool_use" and held else []
            answer = {"role": "user", "content": [*results, _TEXT]}
            assistant = {"role": "assistant", "content": content}
            return {**_ANTHROPIC, "messages": [_USER, assistant, answer]}


# Gemini

_GEMINI: JSON = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
_GEMINI_TOOL: JSON = {"functionDeclarations": [{"name": TOOL}]}
_GEMINI_CALL: JSON = {"name": TOOL, "args": {}}
_MODEL_PARTS = frozenset(
    {
        "thought",
        "thoughtSignature",
        "functionCall",
        "toolCall",
        "toolResponse",
        "executableCode",
        "codeExecutionResult",
    }
)


def _gemini() -> Iterator[Case]:
    fields = fields_of(request_type("gemini"))
    for name in ("safetySettings", "cachedContent", "labels", "serviceTier", "store"):
        found = variants(fields[name].expected, name)
        yield from cases_of("gemini", name, found, partial(with_member, _GEMINI, name))
    for variant in variants(fields["toolConfig"].expected, "toolConfig"):
        base = {**_GEMINI, "tools": [_GEMINI_TOOL]}
        build = partial(with_member, base, "toolConfig")
        yield from cases_of("gemini", "toolConfig", [variant], build)
    for variant in variants(fields["generationConfig"].expected, ""):
        build = partial(_gemini_generation, variant.path)
        yield from cases_of("gemini", "generationConfig", [variant], build)
    for name, field in (fields_of(element_type(fields["tools"].expected)) or {}).items():
        for variant in variants(field.expected, name):
            build = partial(_gemini_tool, name, variant.path)
            yield from cases_of("gemini", f"tools[].{name}", [variant], build)
    content = element_type(fields["contents"].expected)
    part = element_type(fields_of(content)["parts"].expected)
    found = variants(str, "text")
    yield from cases_of("gemini", "systemInstruction.parts[].text", found, _gemini_system)
    for name, field in (fields_of(part) or {}).items():
        build = partial(_gemini_part, name)
        prefix, none = f"contents[].parts[].{name}", _gemini_part("", ABSENT)
        yield from cases_of("gemini", prefix, variants(field.expected, name), build, none)


def _gemini_generation(path: str, config: Any) -> JSON:
    if config is ABSENT:
        return _GEMINI
    if "chema" in path:
        config = {"responseMimeType": "application/json", **config}
    if path.startswith(".responseSchema.") and "responseSchema" in config:
        # Only a schema of an object is enforced everywhere: the root has it.
        config = {**config, "responseSchema": _gemini_object(config["responseSchema"])}
    if "logprobs" in path and "responseLogprobs" not in path:
        config = {"responseLogprobs": True, **config}
    return {**_GEMINI, "generationConfig": config}


def _gemini_object(schema: JSON) -> JSON:
    return {"type": "OBJECT", "properties": {"city": schema}, "required": ["city"]}


def _gemini_tool(name: str, path: str, tool: Any) -> JSON:
    function = {"functionDeclarations": [{"name": "name_Z"}]}
    if tool is ABSENT:
        return {**_GEMINI, "tools": [function]}
    if name == "functionDeclarations" and path.startswith("[].parameters."):
        (declared,) = tool
        if "parameters" in declared:
            tool = [{**declared, "parameters": _gemini_object(declared["parameters"])}]
    return {**_GEMINI, "tools": [{name: tool}, function]}


def _gemini_system(text: Any) -> JSON:
    if text is ABSENT:
        return _GEMINI
    return {**_GEMINI, "systemInstruction": {"parts": [{"text": text}]}}


def _gemini_part(name: str, value: Any) -> JSON:
    part = with_member(GEMINI_MODIFIERS.get(name, {}), name, value)
    user, text = {"text": "Hi"}, {"text": "Done."}
    if name == "functionResponse":
        before: list[JSON] = []
        if isinstance(value, dict):
            ids = {"id": value["id"]} if value.get("id") else {}
            before = [{"functionCall": {**_GEMINI_CALL, **ids}}]
        contents = [
            {"role": "user", "parts": [user]},
            {"role": "model", "parts": [text, *before]},
            {"role": "user", "parts": [part] if part else [user]},
        ]
        return {"contents": contents}
    if name not in _MODEL_PARTS:
        return {"contents": [{"role": "user", "parts": [user, *([part] if part else [])]}]}
    parts = gemini_call_parts(part) if part else []
    if name == "codeExecutionResult" and part:
        parts = [{"executableCode": {"language": "PYTHON", "code": "1"}}, *parts]
    results: list[JSON] = []
    if call := part.get("functionCall"):
        response: JSON = {"name": call["name"], "response": {"output": "ok"}}
        if "id" in call:
            response["id"] = call["id"]
        results = [{"role": "user", "parts": [{"functionResponse": response}]}]
    return {
        "contents": [
            {"role": "user", "parts": [user]},
            {"role": "model", "parts": [text, *parts]},
            *(results or [{"role": "user", "parts": [user]}]),
        ]
    }
