"""Hypothesis strategies of requests, as a gateway receives them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from streamnorm import (
    Audio,
    CacheMark,
    Citation,
    Document,
    Image,
    InputMessage,
    OpaqueBlock,
    OutputFormat,
    Reasoning,
    ReasoningOptions,
    RedactedReasoning,
    Refusal,
    Request,
    ServerToolCall,
    ServerToolResult,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Video,
)
from streamnorm._core.blocks import InputBlock
from streamnorm._core.tools import AnyTool, Namespace, ServerTool
from streamnorm.tools import CustomTool, Grammar, MCPServer
from support.draws import Draws, draws

__all__ = [
    "conversation",
    "hostile_requests",
    "make_request",
    "make_turn",
    "requests",
]

_TEXTS = ("a", "Hello.", "é😀\u2028", 'say "no"\\', "two\nlines", " b ", "{}", "x" * 300)
_ISSUERS = (None, "anthropic", "google", "openai")
_PNG = "iVBORw0KGgo="
_IDS = ("call_{}", "toolu_{}", "functions.f:{}", "{}" + "x" * 60, "é{}", "a b{}", "snid_{}", "")
_REASONING_IDS = (None, "rs_1", "rs_" + "x" * 80, "item_1")
_ARGUMENTS = (
    *("", "{}", '{"a":1}', '{"z":"é","a":[1,{"b":null}]}', '{"n":12345678901234567890}'),
    *('{ "a" : 1.50 }', '{"a":1,"a":2}', '{"s":"\\ud83d\\ude00"}'),
)
_NO_OBJECTS = (
    '{"big":1e400}',
    "{",
    "null",
    "[1]",
    '"a"',
    '{"a":1} x',
    "[" * 200,
)
_DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")
_SERVER_TOOLS: tuple[AnyTool, ...] = (
    ServerTool(
        "web_search",
        "anthropic",
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        max_uses=3,
    ),
    ServerTool("web_search", "openai_responses", {"type": "web_search"}),
    ServerTool("code_execution", "gemini"),
    MCPServer("docs", "https://example.com/mcp", allowed_tools=("find",), require_approval="never"),
)
_NAMES = ("f", "get_weather", "search-web", "a" * 64)


def make_id(d: Draws, number: int) -> str:
    """Return a unique call id, or ""."""
    return d.pick(_IDS).format(number)


def _cache(d: Draws) -> CacheMark | None:
    return CacheMark(d.pick((None, "5m", "1h"))) if d.flag(6) else None


def _text(d: Draws) -> Text:
    return Text(d.pick(_TEXTS), cache=_cache(d), extra=_extra(d))


def _media(d: Draws) -> Image | Document | Audio:
    options: tuple[Image | Document | Audio, ...] = (
        Image("image/png", _PNG, cache=_cache(d)),
        Image("image/jpeg", _PNG, detail=d.pick((None, "low", "high"))),
        Image(url="https://example.com/a.png"),
        Document("application/pdf", "JVBERi0=", title=d.pick((None, "a.pdf"))),
        Document("text/plain", "words", title=d.pick((None, "notes"))),
        Document(url="https://example.com/a.pdf"),
        Audio("audio/wav", "UklGRg=="),
        Video("video/mp4", "AAAA"),
    )
    if d.flag(16):
        return Image(file_id="https://example.com/file", issuer=d.pick(_ISSUERS))
    return d.pick(options)


def _extra(d: Draws) -> dict[str, dict[str, Any]] | None:
    """Return a field of a single dialect."""
    if not d.flag(8):
        return None
    dialect = d.pick(_DIALECTS)
    return {dialect: {"odd": d.pick((1, "a", [{"b": True}]))}}


def _opaque(d: Draws) -> OpaqueBlock:
    return OpaqueBlock(d.pick(_DIALECTS), "odd", '{"type":"odd","data":[1]}')


def _user_blocks(d: Draws) -> tuple[InputBlock, ...]:
    def block() -> InputBlock:
        if d.flag(4):
            return _media(d)
        return _opaque(d) if d.flag(16) else _text(d)

    return tuple(d.some(3, block, 1))


def _signed(d: Draws) -> dict[str, Any]:
    return {"signature": "c2lnbmVk", "issuer": d.pick(_ISSUERS)} if d.flag(3) else {}


def _spoken(d: Draws) -> InputBlock:
    options: tuple[InputBlock, ...] = (
        Text(d.pick(_TEXTS)),
        Text(d.pick(_TEXTS), cache=_cache(d)),
        Reasoning((d.pick(_TEXTS),), **_signed(d)),
        Reasoning(("one", "two"), signature="c2ln", issuer="openai", id=d.pick(_REASONING_IDS)),
        RedactedReasoning("cmVk", d.pick(_ISSUERS)),
        Refusal("no"),
        Text("cited", (Citation("url_citation", "https://u", "T", start=0, end=5),)),
        Text(d.pick(_TEXTS), **_signed(d)),
        _opaque(d),
    )
    return d.pick(options)


def _server_call(d: Draws) -> list[InputBlock]:
    """Return a server tool call and its result."""
    call = ServerToolCall("srvtoolu_1", "web_search", '{"query":"q"}', "server_tool_use")
    return [call, ServerToolResult("srvtoolu_1", "web_search_tool_result", [])]


def _call(d: Draws, number: int, *, hostile: bool) -> ToolCall:
    id, name = make_id(d, number), d.pick(_NAMES)
    if d.flag(6):
        return ToolCall(id, "patch", d.pick(_TEXTS), "custom")
    if d.flag(6):
        return ToolCall(id, "f", "{}", namespace="ns")
    arguments = d.pick(_NO_OBJECTS if hostile and d.flag(6) else _ARGUMENTS)
    return ToolCall(id, name, arguments, **_signed(d))


def _result(d: Draws, call: ToolCall) -> ToolResult:
    content = tuple(
        d.some(2, lambda: Image("image/png", _PNG) if d.flag(4) else Text(d.pick(_TEXTS)))
    )
    if d.flag(6):
        value = '{"ok":true,"rows":[1,2]}'
        return ToolResult(call.id, (Text(value),), name=call.name, value=value)
    name = call.name if d.flag(3) else ""
    return ToolResult(call.id, content, d.flag(5), name, cache=_cache(d))


def make_turn(d: Draws, number: int, *, hostile: bool = False) -> list[InputMessage]:
    """Return an assistant answer, its calls' results, and the user's next message.

    Args:
        d: Random draws.
        number: Number of the turn, for the ids of its calls.
        hostile: Whether results may be late, missing, doubled, of no call, in any order, and
            arguments no JSON object.
    """
    spoken = d.some(2, lambda: _spoken(d))
    calls = [_call(d, 10 * number + n, hostile=hostile) for n in range(d.below(4))]
    if calls and d.flag(3):  # one id, or none, and texts between the calls
        spoken.insert(d.below(len(spoken) + 1), calls.pop())
    searched = _server_call(d) if d.flag(10) else []
    blocks = (*spoken, *searched, *calls)
    all_calls = [block for block in blocks if isinstance(block, ToolCall)]
    turn = [InputMessage("assistant", blocks or (Text("."),))]
    results = [_result(d, call) for call in all_calls]
    if hostile:
        results = _disturbed(d, results)
    user = [*results, *(_user_blocks(d) if not results or d.flag() else ())]
    if d.flag(3):  # a message each
        turn += [InputMessage("user", (block,)) for block in user]
    elif user:
        turn.append(InputMessage("user", tuple(user)))
    if d.flag(6):
        role: Any = d.pick(("system", "developer"))
        turn.append(InputMessage(role, (Text(d.pick(_TEXTS)),)))
    if hostile and d.flag(3):
        turn = [turn[0], *d.shuffled(turn[1:])]
    return turn


def _disturbed(d: Draws, results: list[ToolResult]) -> list[ToolResult]:
    results = d.shuffled(results)
    for _ in range(d.below(3)):
        if not results:
            break
        at = d.below(len(results))
        match d.below(4):
            case 0:
                del results[at]
            case 1:
                results.append(results[at])
            case 2:
                results.append(structs.replace(results[at], content=(Text("another"),), value=None))
            case _:
                results.append(ToolResult("of_no_call", (Text("x"),)))
    return results


def conversation(d: Draws, *, hostile: bool = False) -> list[list[InputMessage]]:
    """Return the messages of a conversation by turns."""
    first = [InputMessage("user", _user_blocks(d), d.pick((None, None, None, "ann")))]
    if d.flag(4):
        first.insert(0, InputMessage("system", (Text(d.pick(_TEXTS)),)))
    if d.flag(4):
        first.append(InputMessage("user", _user_blocks(d)))
    turns = [make_turn(d, number, hostile=hostile) for number in range(1, 1 + d.below(4))]
    return [first, *turns]


def _schema(d: Draws) -> dict[str, Any]:
    return d.pick(
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"type": "object"},
            {"type": "object", "properties": {}, "additionalProperties": False},
        )
    )


def _tools(d: Draws, turns: list[list[InputMessage]]) -> tuple[AnyTool, ...]:
    """Return tools for all calls of a conversation, and others."""
    calls = {(c.name, c.namespace, c.kind): c for t in turns for m in t for c in m.tool_calls}
    tools: list[AnyTool] = []
    for name, namespace, kind in calls:
        group = None if namespace is None else Namespace(namespace, "a group")
        if kind == "custom":
            grammar = d.pick((None, Grammar("lark", "start: /a+/")))
            tools.append(CustomTool(name, "writes", grammar, namespace=group))
            continue
        strict = d.pick((None, True, False))
        tool = Tool(name, d.pick((None, "does it")), _schema(d), strict, namespace=group)
        tools.append(structs.replace(tool, cache=_cache(d), extra=_extra(d)))
    if d.flag(4):
        tools.append(Tool("spare", "more", _schema(d)))
    if d.flag(6):
        tools.append(d.pick(_SERVER_TOOLS))
    if d.flag(8):
        tools.append(Tool("later", "found by a search", _schema(d), deferred=True))
    if d.flag(10):
        tools.append(Tool("bash", None, _schema(d), vendor_type="bash_20250124"))
    return tuple(tools)


def _choice(d: Draws, tools: tuple[AnyTool, ...]) -> ToolChoice | None:
    named = [t.name for t in tools if isinstance(t, Tool) and t.namespace is None]
    options = [None, None, ToolChoice("auto"), ToolChoice("required"), ToolChoice("none")]
    if named:
        options += [ToolChoice("named", (named[0],)), ToolChoice("required", tuple(named))]
        options.append(ToolChoice("auto", (named[0],)))
    custom = [t.name for t in tools if isinstance(t, CustomTool)]
    if custom:
        options.append(ToolChoice("named", (custom[0],), "custom"))
    return d.pick(options) if tools else None


def _output(d: Draws) -> OutputFormat | None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    strict = d.pick((None, True))
    options = (
        None,
        None,
        OutputFormat("text"),
        OutputFormat("json_object"),
        OutputFormat("json_schema", schema, d.pick((None, "answer")), strict=strict),
    )
    return d.pick(options)


def _reasoning(d: Draws) -> ReasoningOptions | None:
    efforts = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    options = (
        None,
        None,
        ReasoningOptions(effort=d.pick(efforts)),
        ReasoningOptions("budget", None, d.pick((1024, 5000, 31_999))),
        ReasoningOptions("adaptive", d.pick((None, "high")), show=d.pick((None, "auto"))),
        ReasoningOptions("off"),
    )
    return d.pick(options)


def make_request(d: Draws, turns: list[list[InputMessage]] | None = None) -> Request:
    """Return a request of a conversation, by default a legal one."""
    turns = conversation(d) if turns is None else turns
    tools = _tools(d, turns)

    def one_of(*values: Any) -> Any:
        return d.pick((None, None, *values))

    return Request(
        model="some-model",
        system=tuple(_text(d) for _ in range(d.below(3))),
        messages=tuple(message for turn in turns for message in turn),
        tools=tools,
        tool_choice=_choice(d, tools),
        parallel_tool_calls=one_of(True, False),
        max_tokens=one_of(100, 40_000),
        stop=d.pick(((), (), ("END",), ("a", "b", "c", "d", "e", "f"))),
        temperature=one_of(0, 0.5, 1.5),
        top_p=one_of(0.9),
        top_k=one_of(40),
        seed=one_of(7),
        frequency_penalty=one_of(0.5),
        presence_penalty=one_of(-0.5),
        logit_bias=one_of({"50256": -100}),
        logprobs=one_of(True),
        top_logprobs=one_of(3),
        choices=one_of(2),
        output=_output(d),
        verbosity=one_of("low"),
        reasoning=_reasoning(d),
        user=one_of("user-1", "u" * 200),
        safety_identifier=one_of("hash"),
        metadata=one_of({"team": "a"}),
        service_tier=one_of("auto", "default", "flex", "priority"),
        cache=one_of(CacheMark()),
        cache_key=one_of("key"),
        compact_at_tokens=one_of(100_000),
        stream=one_of(True, False),
        store=one_of(True, False),
        extra=_extra(d),
    )


def requests() -> st.SearchStrategy[Request]:
    """Return a strategy of requests with all calls answered in order."""
    return draws(200).map(make_request)


def hostile_requests() -> st.SearchStrategy[Request]:
    """Return a strategy of requests with late, missing, repeated or orphaned results."""
    return draws(200).map(lambda d: make_request(d, conversation(d, hostile=True)))
