"""Access of web pages: browser checks, and routes for pages without a backend.

A page can have its own name resolve to 127.0.0.1, and is then of one origin with the gateway (DNS
rebinding); only the `Host` that the browser sends shows it.  A page of another origin can send
what needs no preflight; the `Origin` shows it.  `Sec-Fetch-*` would say the same, but browsers
send them to trustworthy origins alone.

A page is anybody's program: whatever it sends may be written by its user.  Of a page without a
backend the model, the system text, the tools of the provider and the bound on the answer are the
configuration's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, structs

from streamnorm._bodies import decode_request, encode_request
from streamnorm._core.blocks import (
    Audio,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from streamnorm._core.bodies.request import InputMessage, Request
from streamnorm._core.codec import Dialect, Endpoints, Route
from streamnorm._core.errors import DecodeError, EncodeError, UnknownDialect
from streamnorm._core.tools import ServerTool
from streamnorm._registry import DIALECTS, encoder, lookup
from streamnorm._upstream.requests import ClientRequest, RequestRefused, Upstream
from streamnorm.asgi.responses import Scope, Send
from streamnorm.gateway.config import Config, ConfigError, PageConfig

if TYPE_CHECKING:
    from streamnorm.gateway.routing import Routing

_Address: TypeAlias = IPv4Address | IPv6Address

_LABEL = "[a-z0-9_-]+"  # with the underscore of names in Docker
_AUTHORITY = re.compile(
    rf"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>{_LABEL}(?:\.{_LABEL})*)\.?)(?::(?P<port>[0-9]{{1,5}}))?",
    re.ASCII,
)
_ORIGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[!-~]+)", re.ASCII)
_NO_AUTHORITY = frozenset("/?#@*,")
_PORTS = {"http": 80, "https": 443}
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}"  # noqa: S105 - of RFC 9110
_NAMES = re.compile(rf"{_TOKEN}(?: ?, ?{_TOKEN}){{0,99}}", re.ASCII)

_VARY = (b"vary", b"origin")
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-max-age": "600",
}
_REQUESTED_NAMES = "access-control-request-headers"
_PRIVATE_NETWORK = "access-control-request-private-network"


class _Authority(Struct, frozen=True):
    """Host and port of a URL.

    Attributes:
        host: A name in lower case without a dot at its end, or an address.
        port: The port; None if none is named.
    """

    host: str | _Address
    port: int | None

    @property
    def is_local(self) -> bool:
        """Whether the host is always this machine, whatever a name server says."""
        if isinstance(self.host, str):
            return self.host == "localhost" or self.host.endswith(".localhost")
        return self.host.is_loopback


class Browsers:
    """Browser checks: refuses requests of foreign pages, and answers CORS for allowed pages.

    Args:
        config: The configuration.

    Raises:
        ConfigError: `hosts` or `origins` has what is none, or `cors` has no origins.
    """

    def __init__(self, config: Config) -> None:
        self._has_keys = config.has_client_keys
        self._is_open = config.open
        self._hosts = frozenset(
            _check_host(host, f"hosts[{at}]") for at, host in enumerate(config.hosts)
        )
        self._origins = frozenset(
            _check_origin(origin, f"origins[{at}]") for at, origin in enumerate(config.origins)
        )
        self._cors = config.cors
        if config.cors and not config.origins:
            raise ConfigError("cors: no origins, expected those of the pages that may read answers")

    def check(self, scope: Scope, received: ClientRequest) -> None:
        """Refuse a request that a foreign page may have sent, unless clients need keys.

        Raises:
            RequestRefused: A page may have sent it that may not, or it came to an address on which
                a gateway without keys must be open.
        """
        if self._has_keys:
            return
        address = _address_of(scope)
        is_public = address is not None and not address.is_loopback
        # Whoever reaches the port could spend the keys of the upstreams.
        if is_public and not self._is_open:
            raise RequestRefused(
                "a gateway without client_keys on another address than loopback, "
                "expected client_keys or open",
                403,
            )
        host = _authority(received.headers.get("host", ""))
        is_vouched = host is not None and (
            host.is_local or host.host in self._hosts or host.host == address
        )
        if not is_vouched and (self._hosts or (address is not None and address.is_loopback)):
            raise RequestRefused(
                "host: another than this gateway's, expected localhost or one of hosts", 403
            )
        origin = received.headers.get("origin")
        if origin is None:
            return
        # Of another name, the page may be one that was resolved to the gateway.
        is_same = is_vouched and _is_same_origin(origin, host)
        if not is_same and origin.lower() not in self._origins:
            raise RequestRefused("origin: another page's, expected one of origins", 403)
        # A page may send a body without a type to any origin, without a preflight.
        if received.method == "POST" and not received.headers.get("content-type"):
            raise RequestRefused("content-type: none, expected application/json", 415)

    def answers_preflight(self, received: ClientRequest) -> bool:
        """Return whether an OPTIONS request is a CORS preflight of an allowed page."""
        return "access-control-request-method" in received.headers and self._is_readable(received)

    def preflight_headers(self, received: ClientRequest) -> list[tuple[bytes, bytes]]:
        """Return the response headers of a preflight that `cross_origin` does not add."""
        headers = dict(_PREFLIGHT)
        # A wildcard would not stand for `authorization`.
        names = received.headers.get(_REQUESTED_NAMES, "")
        if _NAMES.fullmatch(names):
            headers["access-control-allow-headers"] = names
        # Chrome asks this before a public page may reach a private address (Private Network
        # Access).
        if received.headers.get(_PRIVATE_NETWORK) == "true":
            headers["access-control-allow-private-network"] = "true"
        return _raw(headers)

    def cross_origin(self, received: ClientRequest, send: Send) -> Send:
        """Return a `send` that adds CORS headers; `send` itself if `cors` is off."""
        if not self._cors:
            return send
        # Also on other answers: a shared cache must not answer another origin with them.
        added = [_VARY]
        if self._is_readable(received):
            origin = {"access-control-allow-origin": received.headers["origin"]}
            # Otherwise a page cannot read request ids and rate limits.
            exposed = {"access-control-expose-headers": "*"}
            is_preflight = self.answers_preflight(received)
            added += _raw(origin if is_preflight else origin | exposed)

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        return send_with_headers

    def _is_readable(self, received: ClientRequest) -> bool:
        return self._cors and received.headers.get("origin", "").lower() in self._origins


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is always this machine."""
    if host == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _address_of(scope: Scope) -> _Address | None:
    """Return the local address of a request's connection; None if the server does not state it."""
    server = scope.get("server")
    return None if server is None else _address(server[0])


def _address(text: str) -> _Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A socket for both families has the addresses of IPv4 in this form.
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _authority(text: str) -> _Authority | None:
    """Return the host and port in a `Host` header; None if it is invalid."""
    found = _AUTHORITY.fullmatch(text.lower())
    if found is None:
        return None
    port = None if found["port"] is None else int(found["port"])
    if found["ipv6"] is not None:
        address = _address(found["ipv6"])
        return None if address is None else _Authority(address, port)
    return _Authority(_address(found["name"]) or found["name"], port)


def _is_same_origin(origin: str, host: _Authority | None) -> bool:
    """Return whether an `Origin` has the host and port of a `Host` header."""
    found = _ORIGIN.fullmatch(origin.lower())
    if found is None or host is None:
        return False
    authority, port = _authority(found["authority"]), _PORTS.get(found["scheme"])
    if authority is None or port is None:
        return False
    return authority.host == host.host and (authority.port or port) == (host.port or port)


def _check_host(text: str, where: str) -> str | _Address:
    bare = f"[{text}]" if text.count(":") > 1 and not text.startswith("[") else text
    found = _authority(bare)
    if found is None or found.port is not None:
        raise ConfigError(f"{where}: {text!r}, expected a name or an address, without a port")
    return found.host


def _check_origin(text: str, where: str) -> str:
    found = _ORIGIN.fullmatch(text.lower())
    if found is None or not _NO_AUTHORITY.isdisjoint(found["authority"]):
        raise ConfigError(
            f"{where}: {text!r}, expected a scheme and a host, as https://app.example"
        )
    return text.lower()


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


_INSTRUCTIONS = ("system", "developer")


class Page(Struct, frozen=True):
    """A route for web pages of one dialect.

    Attributes:
        client: The dialect, as it is spoken at the route.
        options: What the configuration says of the route.
    """

    client: Dialect
    options: PageConfig

    def check_size(self, size: int) -> None:
        """Refuse an oversized body.

        Raises:
            RequestRefused: It is.
        """
        limit = self.options.max_body_bytes
        if size > limit:
            raise RequestRefused(f"a body of {size} bytes, expected at most {limit}", 413)

    def prepare(self, request: Request, upstream: Upstream) -> Request:
        """Return a page's request with the configured model, system text, tools and bounds.

        Args:
            request: The request of the page.
            upstream: The upstream that is asked.

        Raises:
            DecodeError: The page sends instructions or tools that it may not, too many messages, or
                none that is to be answered, or of whose last one the upstream gets nothing; or it
                names a file by its URL or id: the provider would fetch it with the operator's
                account.
        """
        options = self.options
        count, limit = len(request.messages), options.max_messages
        if count > limit:
            problem = f"{count} messages, expected at most {limit} (max_messages)"
            raise DecodeError(problem, path="$.messages")
        if not request.messages:
            # Where the system text is a message, the provider would answer it.
            raise DecodeError("no messages, expected at least one", path="$.messages")
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
        model = upstream.upstream_model(options.model)
        question = _messages_after_answer(request.messages)
        if question and not _is_carried(question, model, upstream):
            # The request would end in the answer before, as above.
            kinds = ", ".join(dict.fromkeys(_kind_of(b) for m in question for b in m.blocks))
            problem = f"nothing that the model can read at the end ({kinds or 'no content'})"
            raise DecodeError(f"{problem}, expected a text or another file", path="$.messages")
        own = tuple(ServerTool(kind, self.client.name) for kind in options.tools)
        return Request(
            model=model,
            system=() if options.system is None else (Text(options.system),),
            messages=request.messages,
            tools=(*request.tools, *own),
            max_tokens=options.max_tokens,
            stream=True,
            extra=request.extra,
        )


class Pages:
    """The configured routes for web pages, by dialect.

    Args:
        config: The configuration.
        routing: Chooses the upstreams of a model.

    Raises:
        ConfigError: There is no such route, no model of the name that it asks for, or no such
            client.

    Attributes:
        clients: The dialect of the route at each path.
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
            if options.resume and config.log is None:
                raise ConfigError(f"pages.{name}.resume: without a log, expected [log]")
            self._by_dialect[client.name] = Page(client, options)
        self.clients = {page.client.page_path: page.client for page in self._by_dialect.values()}

    def page_of(self, client: Dialect) -> Page | None:
        """Return the route for a client's dialect; None if no route is configured."""
        return self._by_dialect.get(client.name)


def _ends_in_answer(messages: tuple[InputMessage, ...]) -> bool:
    """Return whether the last message is an answer that needs no continuation."""
    if not messages or messages[-1].role != "assistant":
        return False
    # No provider gets back what one executed: an answer that was paused there ends before it.
    server_blocks = (ServerToolCall, ServerToolResult)
    blocks = [block for block in messages[-1].blocks if not isinstance(block, server_blocks)]
    return not (blocks and isinstance(blocks[-1], ToolCall))  # a call gets its result


def _messages_after_answer(messages: tuple[InputMessage, ...]) -> tuple[InputMessage, ...]:
    """Return the messages after the last message of the assistant."""
    count = len(messages)
    while count and messages[count - 1].role != "assistant":
        count -= 1
    return messages[count:]


def _is_carried(messages: tuple[InputMessage, ...], model: str, upstream: Upstream) -> bool:
    """Return whether an upstream gets any content of a request's last messages."""
    blocks = [block for message in messages for block in message.blocks]
    if any(isinstance(block, ToolResult) or _is_text(block) for block in blocks):
        return True
    dialect, server, profiles = upstream.dialect, upstream.server, upstream.profiles
    asked = Request(model=model, messages=messages)
    try:
        encoded = encode_request(asked, dialect, server=server, profiles=profiles, repair="fill")
    except EncodeError as exc:
        # Other errors are those of the whole request, which names them.
        return exc.path != "messages"
    # A dialect leaves out further files when it writes the body.
    written = decode_request(encoded.body, dialect, path=encoded.path)
    return any(message.blocks for message in written.messages)


def _is_text(block: InputBlock) -> bool:
    return isinstance(block, Text) and bool(block.text.strip())


def _kind_of(block: InputBlock) -> str:
    """Return the kind of a block, by which a loss names it; the content stays private."""
    match block:
        case Text():
            return "blank text"
        case OpaqueBlock():
            return "data"
        case _:
            return type(block).__name__.lower()


def _names_file(block: object) -> bool:
    """Return whether a block refers to a file by URL or id, without the file's content."""
    if isinstance(block, ToolResult):
        return any(map(_names_file, block.content))
    return isinstance(block, Image | Document | Audio | Video) and block.data is None


def _client_of(name: str) -> Dialect:
    """Return the dialect of a route for pages.

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
