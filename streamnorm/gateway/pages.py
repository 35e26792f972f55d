"""Pages without a backend of their own: their routes, and what their requests may not decide.

A page is anybody's program: whatever it sends may be written by its user.  The model, the system
text, the tools of the provider and the bound on the answer are the configuration's.
"""

from __future__ import annotations

import re

from msgspec import Struct, structs

from streamnorm._core.blocks import (
    Audio,
    Document,
    Image,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from streamnorm._core.bodies.request import InputMessage, Request
from streamnorm._core.codec import Dialect, Endpoints, Route
from streamnorm._core.errors import DecodeError, UnknownDialect
from streamnorm._core.events import StreamError
from streamnorm._core.tools import ServerTool
from streamnorm._registry import DIALECTS, encoder, lookup
from streamnorm._upstream.requests import RequestRefused, Upstream
from streamnorm.gateway.config import Config, ConfigError, PageConfig
from streamnorm.gateway.routing import Routing

NO_CREDIT = "credit balance is too low"
"""What Anthropic says of an empty account, with status 400 (anthropics/claude-code#66314)."""

_INSTRUCTIONS = ("system", "developer")
# What a provider says of a key, its account and what that may use.
_OF_ACCOUNT = (401, 402, 403)
_NO_ACCESS = StreamError(
    "upstream", "the provider refuses the gateway", "provider_refused", 502, retryable=False
)


class Page(Struct, frozen=True):
    """The route of the pages of one dialect.

    Attributes:
        client: The dialect, as it is spoken at the route.
        options: What the configuration says of the route.
    """

    client: Dialect
    options: PageConfig

    def check_size(self, size: int) -> None:
        """Refuse a body that is too large for a page.

        Raises:
            RequestRefused: It is.
        """
        limit = self.options.max_body_bytes
        if size > limit:
            raise RequestRefused(f"a body of {size} bytes, expected at most {limit}", 413)

    def hide_account(self, error: StreamError, status: int) -> StreamError:
        """Return the error for the page: of the operator's account it learns nothing.

        Args:
            error: Error of the upstream; the log has it as it is.
            status: Its HTTP status.
        """
        is_of_account = status in _OF_ACCOUNT or NO_CREDIT in error.message
        return _NO_ACCESS if is_of_account else error

    def prepare(self, request: Request, upstream: Upstream) -> Request:
        """Return the request for an upstream: of the page's own it has the messages, and tools
        that it may offer.

        Args:
            request: The request of the page.
            upstream: The upstream that is asked.

        Raises:
            DecodeError: The page sends instructions or tools that it may not, too many messages, or
                none that is to be answered; or it names a file by its URL or id: the provider would
                fetch it with the operator's account.
        """
        options = self.options
        count, limit = len(request.messages), options.max_messages
        if count > limit:
            problem = f"{count} messages, expected at most {limit} (max_messages)"
            raise DecodeError(problem, path="$.messages")
        if _ends_in_answer(request.messages):
            # Some models would go on with its text, as if they had written it, and others refuse.
            problem = "an answer at the end, expected a message of the user or results of tools"
            raise DecodeError(problem, path="$.messages")
        has_instructions = any(message.role in _INSTRUCTIONS for message in request.messages)
        if has_instructions and not options.allow_system:
            raise DecodeError("a system message of the page, expected none", path="$.messages")
        if request.tools and not options.allow_tools:
            raise DecodeError("tools of the page, expected none", path="$.tools")
        if any(_names_file(block) for message in request.messages for block in message.blocks):
            raise DecodeError("a file by its URL or id, expected a data: URL", path="$.messages")
        own = tuple(ServerTool(kind, self.client.name) for kind in options.tools)
        return Request(
            model=upstream.upstream_model(options.model),
            system=() if options.system is None else (Text(options.system),),
            messages=request.messages,
            tools=(*request.tools, *own),
            max_tokens=options.max_tokens,
            stream=True,
            extra=request.extra,
        )


class Pages:
    """The routes of pages that a configuration has; without `pages` there are none.

    Args:
        config: The configuration.
        routing: Chooses the upstreams of a model.

    Raises:
        ConfigError: There is no such route, no model of the name that it asks for, or no such
            client.
    """

    def __init__(self, config: Config, routing: Routing) -> None:
        self._by_dialect: dict[str, Page] = {}
        for name, options in config.pages.items():
            client = _client_of(name)
            try:
                routing.targets(options.model, client)
                encoder(client.name, page_client=options.page_client)
            except RequestRefused as refused:
                raise ConfigError(f"pages.{name}.model: {refused}") from refused
            except ValueError as exc:
                raise ConfigError(f"pages.{name}: {exc}") from exc
            self._by_dialect[client.name] = Page(client, options)

    def client_at(self, path: str) -> Dialect | None:
        """Return the dialect of the pages that a path belongs to; None for any other path."""
        clients = (page.client for page in self._by_dialect.values())
        return next((client for client in clients if client.page_path == path), None)

    def page_of(self, client: Dialect) -> Page | None:
        """Return the route of a client; None if it is no page."""
        return self._by_dialect.get(client.name)


def _ends_in_answer(messages: tuple[InputMessage, ...]) -> bool:
    """Return whether the last message is an answer that is complete, or was cut in a text."""
    if not messages or messages[-1].role != "assistant":
        return False
    # A call gets its result, and an answer that its provider paused at its own call is no end.
    last = messages[-1].blocks[-1]
    return not isinstance(last, ToolCall | ServerToolCall | ServerToolResult)


def _names_file(block: object) -> bool:
    """Return whether a block, or one of a result, is a file that the page does not send along."""
    if isinstance(block, ToolResult):
        return any(map(_names_file, block.content))
    return isinstance(block, Image | Document | Audio | Video) and block.data is None


def _client_of(name: str) -> Dialect:
    """Return the dialect of pages as it is spoken at its route.

    Raises:
        ConfigError: There is no such dialect, or no page speaks it.
    """
    fit = {known.name: known.page_path for known in DIALECTS.values() if known.page_path}
    try:
        known = lookup(name)
    except UnknownDialect:
        known = None
    if known is None or known.page_path is None:
        raise ConfigError(f"pages.{name}: no protocol of pages, expected {' or '.join(fit)}")
    route = Route("POST", re.compile(f"^{re.escape(known.page_path)}$"), "stream")
    return structs.replace(known, endpoints=Endpoints(routes=(route,)))
