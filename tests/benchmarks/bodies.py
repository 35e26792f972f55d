"""Cost of translating a long request, as a multiple of untyped JSON decoding and encoding."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from timing import Figure, Run, fastest

from streamnorm import (
    InputMessage,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    decode_request,
    encode_request,
)

MESSAGES = 1000
SIZE = 2_000_000
BAR = 5.0
DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")

# Text in ASCII alone is decoded and encoded the fastest, which leaves the least to translate in.
_ASCII = 'def f(x: str) -> str:  # "a"\n    return x.removeprefix("a") + "\\n"\n'
_OTHER = 'def f(x: str) -> str:  # "é" 😀\n    return x.removeprefix("a") + "\\n"\n'
_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def _text(size: int, line: str = _ASCII) -> str:
    return (line * (size // len(line) + 1))[:size]


def results(size: int, line: str = _ASCII) -> list[InputMessage]:
    """Return the messages of an agent that reads files: texts, calls and results."""
    messages = [InputMessage("user", (Text(_text(size, line)),))]
    for number in range(MESSAGES // 2):
        arguments = f'{{"path":"src/module_{number}.py","offset":{number},"limit":200}}'
        call = ToolCall(f"toolu_{number:08}", "read", arguments)
        messages.append(InputMessage("assistant", (Text("I read a file."), call)))
        result = ToolResult(call.id, (Text(_text(2 * size, line)),))
        messages.append(InputMessage("user", (result,)))
    return messages


def texts(size: int) -> list[InputMessage]:
    """Return the messages of a conversation without tools."""
    return [
        InputMessage("assistant" if number % 2 else "user", (Text(_text(size)),))
        for number in range(MESSAGES)
    ]


def arguments(size: int) -> list[InputMessage]:
    """Return the messages of an agent that writes files: nearly all text is in arguments."""
    messages = [InputMessage("user", (Text("Write."),))]
    for number in range(MESSAGES // 2):
        value = {"path": f"src/module_{number}.py", "lines": _text(size).splitlines()}
        call = ToolCall(f"toolu_{number:08}", "write", msgspec.json.encode(value).decode())
        messages.append(InputMessage("assistant", (call,)))
        messages.append(InputMessage("user", (ToolResult(call.id, (Text("ok"),)),)))
    return messages


CONVERSATIONS: dict[str, Callable[[int], list[InputMessage]]] = {
    "texts": texts,
    "results": results,
    "results not in ASCII": lambda size: results(size, _OTHER),
    "arguments": arguments,
}


def made(name: str, size: int, dialect: str) -> bytes:
    """Return a request body with messages of a given size."""
    tools = tuple(Tool(name, "does it", _SCHEMA) for name in ("read", "write"))
    request = Request(
        model="model", max_tokens=1000, tools=tools, messages=tuple(CONVERSATIONS[name](size))
    )
    return msgspec.json.encode(encode_request(request, dialect).body)


def sized(name: str, dialect: str) -> bytes:
    """Return a request body of about `SIZE` bytes."""
    size = SIZE // MESSAGES
    return made(name, size * SIZE // len(made(name, size, dialect)), dialect)


def untyped(body: bytes) -> Run:
    """Decode and encode a body as untyped JSON, the minimum work of any translation."""

    def run() -> None:
        msgspec.json.encode(msgspec.json.decode(body))

    return run


def translated(body: bytes, source: str, target: str) -> Run:
    """Decode a body, and encode it in another dialect."""

    def run() -> None:
        request = decode_request(body, source)
        msgspec.json.encode(encode_request(request, target).body)

    return run


def report(rounds: int) -> list[Figure]:
    """Print the cost of each pair of dialects, in ms and as a multiple."""
    print(f"\n{'1,000 messages of 2 MB':56}{'ms':>6}{'x untyped':>12}")
    figures: list[Figure] = []
    for name in CONVERSATIONS:
        for source in DIALECTS:
            body = sized(name, source)
            runs = {target: translated(body, source, target) for target in DIALECTS}
            taken = fastest({"": untyped(body), **runs}, min(rounds, 8))
            for target in DIALECTS:
                figure = Figure(f"{name}, {source} to {target}", taken[target] / taken[""], BAR)
                figures.append(figure)
                print(
                    f"{figure.name:56}{1000 * taken[target]:6.1f}{figure.value:10.2f} {figure.mark}"
                )
    return figures
