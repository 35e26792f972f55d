"""What is written is read as it was, less what the losses name, and never rewritten later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import assume, given
from msgspec import structs
from support.bodies.sdk_types import problems
from support.draws import Draws, draws
from support.gemini.bodies import read, without_source

from streamnorm import (
    Document,
    Image,
    Reasoning,
    RedactedReasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.blocks import Audio, InputBlock, Video
from streamnorm._core.bodies.projection import project_request
from streamnorm._core.bodies.request import (
    InputMessage,
    OutputFormat,
    ReasoningOptions,
    Request,
)
from streamnorm._core.codec import WriteContext
from streamnorm._core.json import compact
from streamnorm._core.losses import Losses
from streamnorm._core.tools import (
    AnyTool,
    CustomTool,
    MCPServer,
    Namespace,
    ServerTool,
    Tool,
    ToolChoice,
)
from streamnorm.dialects.gemini.body import CODEC

WORDS = ("", " ", "a", "ü b", "<x>\n", "\u2028", "🙂")
ARGUMENTS = ("", "{}", '{"b": 1, "a": [1.0, "ü", null]}', '{"n": 12345678901234567890}')
SIGNED = ({}, {"signature": "c2ln", "issuer": "google"}, {"signature": "x", "issuer": "anthropic"})
ADAPTIVE = ReasoningOptions("adaptive")
SCHEMA = {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}


def _file(d: Draws) -> Any:
    return d.pick(
        (
            Image("image/png", "AAAA", detail=d.pick((None, "low", "auto"))),
            Image("image/png", url="https://a.org/b.png"),
            Image(url="https://a.org/b.webp"),
            Image("image/png", file_id="gs://a/b", issuer="google"),
            Document("application/pdf", "JVBERg==", title=d.pick((None, "t"))),
            Document("text/plain", "ü", title="t"),
            Audio("audio/wav", "UklGRg=="),
            Video("video/mp4", url="https://a.org/b"),
        )
    )


def _blocks(d: Draws, role: str) -> tuple[InputBlock, ...]:
    def block() -> InputBlock:
        if role == "user":
            return d.pick((Text(d.pick(WORDS)), _file(d)))
        if role != "assistant":
            return Text(d.pick(WORDS))
        signed = d.pick(SIGNED)
        return d.pick(
            (
                Text(d.pick(WORDS), **signed),
                Reasoning(tuple(d.some(2, lambda: d.pick(WORDS))), **signed),
                RedactedReasoning("EqQB", d.pick(("anthropic", "google"))),
                Refusal("No."),
                Image("image/png", "AAAA"),
            )
        )

    return tuple(d.some(3, block))


def _turn(d: Draws, number: int) -> Iterator[InputMessage]:
    role = d.pick(("user", "assistant", "system", "developer", "calls"))
    if role != "calls":
        yield InputMessage(role, _blocks(d, role))
        return
    calls = [
        ToolCall(f"c{number}.{n}", d.pick("fg"), d.pick(ARGUMENTS), **d.pick(SIGNED))
        for n in range(1 + d.below(3))
    ]
    if d.flag():
        calls.append(ToolCall(f"c{number}", "free", "*** x", kind="custom", namespace="ns"))
    yield InputMessage("assistant", (*_blocks(d, "assistant"), *calls, *_blocks(d, "assistant")))
    results = [
        ToolResult(
            call.id,
            tuple(d.some(3, lambda: d.pick((Text(d.pick(WORDS)), Image("image/png", "AAAA"))))),
            is_error=d.flag(),
            value=d.pick((None, '{"a":1}')),
        )
        for call in calls
    ]
    yield InputMessage("user", (*results, *_blocks(d, "user")))


def _conversation(d: Draws) -> tuple[InputMessage, ...]:
    leading = d.some(1, lambda: InputMessage("system", _blocks(d, "system")))
    turns = [message for n in range(d.below(5)) for message in _turn(d, n)]
    return (*leading, InputMessage("user", (Text("Hi"),)), *turns)


def _request(d: Draws) -> Request:
    strict = d.pick((None, True))
    others: tuple[Any, ...] = (
        CustomTool("free", namespace=Namespace("ns")),
        ServerTool("web_search", "anthropic", {"type": "web_search_20250305"}, ("a",)),
        ServerTool("image_generation", "openai_responses"),
        MCPServer("wiki", "https://w.org", "tok", {"X-A": "b"}, require_approval="never"),
    )
    tools = (Tool("f", "d", SCHEMA, strict), *(tool for tool in others if d.flag()))
    choices = (None, *map(ToolChoice, ("auto", "none", "required")), ToolChoice("named", ("f",)))
    restricted = (ToolChoice("required", ("f", "g")), ToolChoice("auto", ("f",)))
    return Request(
        model=d.pick(("", "gemini-3-pro", "a/b")),
        system=tuple(d.some(2, lambda: Text(d.pick(WORDS[2:])))),
        messages=_conversation(d),
        tools=tools,
        tool_choice=d.pick((*choices, *restricted)),
        parallel_tool_calls=d.pick((None, False)),
        max_tokens=d.pick((None, 5)),
        stop=d.pick(((), ("x",), tuple("abcdefg"))),
        temperature=d.pick((None, 1, 1.5)),
        top_k=d.pick((None, 40)),
        output=d.pick((None, OutputFormat("text"), OutputFormat("json_schema", SCHEMA, "n"))),
        reasoning=d.pick(
            (
                None,
                ReasoningOptions("off"),
                ReasoningOptions("budget", None, 99, "auto"),
                ReasoningOptions(effort=d.pick(("none", "low", "max"))),
                ADAPTIVE,
            )
        ),
        service_tier=d.pick((None, "default", "flex", "scale")),
        metadata=d.pick((None, {"a": "b"})),
        stream=d.pick((None, True)),
    )


def write(request: Request) -> tuple[dict[str, Any], str, Losses]:
    losses = Losses()
    written = CODEC.write_request(request, WriteContext(CODEC.capabilities, losses))
    assert problems("gemini", written.body) == []
    return written.body, written.path.partition("?")[0], losses


def comparable(request: Request) -> Request:
    """Return a request as its body says it: without boundaries and names that no field holds."""
    names: dict[str, str] = {}
    messages: list[InputMessage] = []
    for message in request.messages:
        names |= {call.id: call.name for call in message.tool_calls}
        blocks = [_comparable_block(block, names) for block in message.blocks]
        if message.role == "assistant":
            if messages and messages[-1].role == "assistant":  # contents of one answer
                blocks = [*messages.pop().blocks, *blocks]
            blocks = _joined(blocks)
        messages.append(InputMessage(message.role, tuple(blocks)))
    choice, output = request.tool_choice, request.output
    is_strict = any(isinstance(tool, Tool) and tool.strict for tool in request.tools)
    if choice == ToolChoice("auto") and is_strict:
        choice = None  # the default
    if choice is not None and choice.mode == "required" and len(choice.names) == 1:
        choice = ToolChoice("named", choice.names)  # the other tools are not offered
    if output is not None:
        output = OutputFormat(output.kind, output.schema)
    return structs.replace(
        request,
        messages=tuple(messages),
        tools=tuple(map(_comparable_tool, request.tools)),
        tool_choice=choice,
        output=output,
        reasoning=None if request.reasoning == ADAPTIVE else request.reasoning,
        stream=None,
    )


def _comparable_tool(tool: AnyTool) -> AnyTool:
    match tool:
        case Tool():
            schema = tool.input_schema or {"type": "object", "properties": {}}
            return structs.replace(tool, input_schema=schema, strict=None)
        case ServerTool():
            return structs.replace(tool, dialect="", data={})
        case _:
            return tool


def _comparable_block(block: InputBlock, names: dict[str, str]) -> Any:
    match block:
        case ToolCall(arguments=arguments):
            return structs.replace(block, arguments=compact(json.loads(arguments or "{}")))
        case ToolResult(content=content, value=value):
            text = "".join(item.text for item in content if isinstance(item, Text))
            if value == '{"a":1}' and block.is_error:
                value = '{"error":{"a":1}}'
            files = tuple(item for item in content if not isinstance(item, Text))
            text = text if value is None else value
            texts = (Text(text),) if text else ()
            name = names[block.tool_call_id]
            return structs.replace(block, content=(*texts, *files), name=name, value=value)
        case Reasoning():
            return structs.replace(block, parts=(block.text,) if block.text else ())
        case Document():
            return structs.replace(block, title=None)
        case Image(media_type=None):
            return structs.replace(block, media_type="image/webp")
        case _:
            return block


def _joined(blocks: list[Any]) -> list[Any]:
    joined: list[Any] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if (
            type(block) is type(last)
            and isinstance(block, Text | Reasoning)
            and not (block.signature or last.signature)
        ):
            text = last.text + block.text
            parts = (text,) if text else ()
            joined[-1] = Text(text) if isinstance(block, Text) else Reasoning(parts)
        else:
            joined.append(block)
    return joined


@given(draws(400).map(_request))
def test_a_written_request_is_read_as_projected(request: Request) -> None:
    projected, _ = project_request(request, CODEC.capabilities, Losses())
    body, path, _ = write(projected)
    assert comparable(without_source(read(body, path))) == comparable(projected)


@given(draws(400).map(lambda d: (_request(d), tuple(_turn(d, 9)))))
def test_a_longer_conversation_begins_as_the_shorter_one(
    drawn: tuple[Request, tuple[InputMessage, ...]],
) -> None:
    request, turn = drawn
    longer = structs.replace(request, messages=(*request.messages, *turn))
    bodies = []
    for asked in (request, longer):
        projected, _ = project_request(asked, CODEC.capabilities, Losses())
        bodies.append(write(projected)[0])
    before, after = bodies
    sent = before["contents"]
    # Calls after an answer are joined to it: the API refuses a turn with them behind another.
    assume(not sent or sent[-1]["role"] != "model")
    assert after["contents"][: len(sent)] == sent
    assert {**after, "contents": sent} == before
