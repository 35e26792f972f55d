"""Token counts of requests: the server's count, or an estimate without a server counter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from math import ceil
from threading import Lock
from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import (
    Audio,
    Document,
    Image,
    InputBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from streamnorm._core.bodies.request import Request
from streamnorm._core.json import InvalidJSON, compact, decode_any, is_array, is_object
from streamnorm._core.limits import Limits
from streamnorm._core.tools import AnyTool, CustomTool, MCPServer, ServerTool, Tool

# Prose has some four bytes a token, JSON and code three.
BYTES_PER_TOKEN = 3.5

# Random Base64 has some 1.5; indentation and repeated words rarely more than 8.
MIN_BYTES_PER_TOKEN = 1.5
MAX_BYTES_PER_TOKEN = 8.0

# Role, delimiters and type of a message, and of a tool.
ITEM_TOKENS = 4

# Anthropic reduces larger images to about these; OpenAI and Gemini count fewer for most.
# https://platform.claude.com/docs/en/build-with-claude/vision
IMAGE_TOKENS = 1_600

# Anthropic counts 1,500 to 3,000 tokens for a page of a PDF.  The pages are not counted here.
DOCUMENT_TOKENS = 3_000

# A minute of sound at Gemini's 32 tokens a second, and of video at 263.
AUDIO_TOKENS = 1_920
VIDEO_TOKENS = 15_780

# The initial ratio weighs as much as a request of this size.
_PRIOR_BYTES = 2_000
# The tokens of a short request are mostly those that the server adds.
_MIN_LEARNT_BYTES = 500
# Weight of earlier requests after the next one.
_DECAY = 0.8

# Base64 in blocks that only one dialect knows: a screenshot, an encrypted page.
_BASE64 = re.compile(r"(?:data:[^,]{0,200},)?[A-Za-z0-9+/_=-]{1000,}", re.ASCII)


class TokenCount(Struct, frozen=True):
    """The number of input tokens of a request.

    Attributes:
        input_tokens: All input tokens.
        cached_tokens: Input tokens in an explicit cache; None = not said.
        is_estimate: Whether the number is an estimate.
    """

    input_tokens: int
    cached_tokens: int | None = None
    is_estimate: bool = False


class TokenEstimator:
    """Estimate the input tokens of requests, for servers without a counter.

    An estimate is the size of all text, calls, results and tools, divided by a ratio of bytes to
    tokens, plus a constant for each image, document and recording.  The ratio starts at
    `BYTES_PER_TOKEN` and is learnt per model from the usage that servers report; it stays
    within `MIN_BYTES_PER_TOKEN` and `MAX_BYTES_PER_TOKEN`.  One estimator may be used by several
    threads.

    Args:
        max_models: Bound on the models with a learnt ratio; beyond it, the model that was
            observed least recently is forgotten.
    """

    def __init__(self, max_models: int = 1024) -> None:
        self._learnt: dict[str, _Learnt] = {}
        self._max_models = max_models
        self._lock = Lock()

    def estimate(self, request: Request) -> TokenCount:
        """Return an estimated token count of a request."""
        size = _size_of(request)
        learnt = self._learnt.get(request.model, _PRIOR)
        tokens = ceil(size.text / learnt.bytes_per_token) + size.tokens
        return TokenCount(tokens, is_estimate=True)

    def observe(self, request: Request, input_tokens: int | None) -> None:
        """Learn a model's bytes per token from the input tokens that a server reports.

        Ignored are short requests, requests with images or other files, requests whose input is
        partly unknown (stored history, search results), and ratios beyond the bounds.

        Args:
            request: The request, with the same model name as the requests to estimate.
            input_tokens: `Usage.input_tokens` of the answer; None = not said.
        """
        if (learn := self.observer(request)) is not None:
            learn(input_tokens)

    def observer(self, request: Request) -> Callable[[int | None], None] | None:
        """Return a function that calls `observe` for this request, given the token count.

        None if the request cannot teach a ratio.  The function does not hold a reference to the
        request.

        Args:
            request: As for `observe`.
        """
        model, size = request.model, _size_of(request)
        is_short = size.text < _MIN_LEARNT_BYTES or len(model) > Limits().max_id_chars
        if is_short or size.media or _has_hidden_input(request):
            return None
        return partial(self._learn, model, size)

    def _learn(self, model: str, size: _Size, input_tokens: int | None) -> None:
        if input_tokens is None:
            return
        tokens = input_tokens - size.tokens
        if not size.text / MAX_BYTES_PER_TOKEN <= tokens <= size.text / MIN_BYTES_PER_TOKEN:
            return
        with self._lock:
            known = self._learnt.pop(model, _PRIOR)
            self._learnt[model] = known.with_request(size.text, tokens)
            if len(self._learnt) > self._max_models:
                del self._learnt[next(iter(self._learnt))]


class _Learnt(Struct, frozen=True):
    """Weighted byte and token totals of one model's requests; recent requests weigh more."""

    bytes: float
    tokens: float

    @property
    def bytes_per_token(self) -> float:
        return self.bytes / self.tokens

    def with_request(self, bytes: int, tokens: int) -> _Learnt:
        return _Learnt(self.bytes * _DECAY + bytes, self.tokens * _DECAY + tokens)


_PRIOR = _Learnt(_PRIOR_BYTES, _PRIOR_BYTES / BYTES_PER_TOKEN)


def _has_hidden_input(request: Request) -> bool:
    """Return whether the model reads input outside the request: stored history, search results."""
    return bool(request.state) or any(
        isinstance(tool, (ServerTool, MCPServer)) for tool in request.tools
    )


# The size of a request

_MEDIA_TOKENS: dict[type, int] = {
    Image: IMAGE_TOKENS,
    Document: DOCUMENT_TOKENS,
    Audio: AUDIO_TOKENS,
    Video: VIDEO_TOKENS,
}


class _Size:
    """The text bytes, constant tokens and files of a request, for the token estimate.

    Attributes:
        text: UTF-8 bytes of all text.
        tokens: Sum of the constants for messages, tools and files.
        media: Number of images, documents and recordings.
    """

    def __init__(self) -> None:
        self.text = 0
        self.tokens = 0
        self.media = 0

    def add(self, *texts: str | None) -> None:
        for text in texts:
            if text:
                self.text += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))

    def add_media(self, kind: type) -> None:
        self.media += 1
        self.tokens += _MEDIA_TOKENS[kind]

    def add_json(self, value: Any) -> None:
        """Add a JSON value of unknown meaning to the size; long Base64 counts as an image."""
        rest = [value]
        while rest:
            item = rest.pop()
            if is_object(item):
                self.add(*item)
                rest += item.values()
            elif is_array(item):
                rest += item
            elif not isinstance(item, str):
                self.add(str(item))
            elif _BASE64.fullmatch(item):
                self.add_media(Image)
            else:
                self.add(item)


def _size_of(request: Request) -> _Size:
    size = _Size()
    _add_blocks(request.system, size)
    for message in request.messages:
        size.tokens += ITEM_TOKENS
        size.add(message.name)
        _add_blocks(message.blocks, size)
    for tool in request.tools:
        size.tokens += ITEM_TOKENS
        _add_tool(tool, size)
    if request.output is not None and request.output.schema is not None:
        size.add(compact(request.output.schema))
    return size


def _add_blocks(blocks: Iterable[InputBlock], size: _Size) -> None:
    for block in blocks:
        _add_block(block, size)


def _add_block(block: InputBlock, size: _Size) -> None:
    match block:
        case Text(text=text) | Refusal(text=text):
            size.add(text)
        case ToolCall(name=name, arguments=text) | ServerToolCall(name=name, arguments=text):
            size.add(name, text)
        case ToolResult(content=content, value=value):
            _add_blocks(content, size)
            size.add(None if content else value)
        case Reasoning(parts=parts):
            size.add(*parts)
        case RedactedReasoning(data=data):
            size.add(data)
        case Document():
            _add_document(block, size)
        case Image() | Audio() | Video():
            size.add_media(type(block))
        case ServerToolResult(content=content):
            size.add_json(content)
        case _:
            size.add_json(_decode_or_text(block.data))


def _add_document(block: Document, size: _Size) -> None:
    size.add(block.title)
    is_text = block.media_type is not None and block.media_type.startswith("text/")
    if is_text and block.data is not None:
        size.add(block.data)
    else:
        size.add_media(Document)


def _decode_or_text(data: str) -> Any:
    """Return the value of JSON text, or the text itself if it is not JSON."""
    try:
        return decode_any(data, max_depth=Limits().max_json_depth)
    except InvalidJSON:
        return data


def _add_tool(tool: AnyTool, size: _Size) -> None:
    match tool:
        case Tool(name=name, description=description, input_schema=schema):
            size.add(name, description, None if schema is None else compact(schema))
        case CustomTool(name=name, description=description, grammar=grammar):
            size.add(name, description, None if grammar is None else grammar.definition)
        case ServerTool(data=data):
            size.add_json(data)
        case _:
            size.add(tool.name)
