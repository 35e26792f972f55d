"""Cost of an event through a `TranscodingTransport`, compared to the bare client.

The inner transport is in memory: over a socket, the kernel and httpcore would decide how many
events a read holds, and their cost, many times that of an event, would be part of both figures.
Here each read has its named size, and the two runs differ by the transport alone: decoder and
encoder, a second response, and the layers between.  Both clients read `iter_bytes` or
`aiter_bytes`, as the SDKs do.  Each run is a whole exchange; its stream is so long that the
request is a small part of it.

The column `codec` is a bare transcoder with the same reads: what is over the bar there is not
the transport's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import httpx
import httpx2
import msgspec
from matrix import Column
from reads import HALVES, ONE_EVENT, READS, SEGMENTS
from timing import Figure, Run, decode_json, fastest
from workloads import DIALECTS, Workload, chat, workloads

import streamnorm.transports.httpx
import streamnorm.transports.httpx2
from streamnorm import Completed, InputMessage, Request, Text, Transcoder, encode_request

__all__ = ["report"]

EVENTS = 5000
_MAX_ROUNDS = 10
_TRANSPORT_BAR = 1.0  # in U, beside the bar of the pair of dialects
_BASE_URL = "http://provider.test"
_REQUEST = Request(
    model="m", stream=True, max_tokens=100, messages=(InputMessage("user", (Text("Hi."),)),)
)
_WIDTH = 23
# No provider answers in these.
_PAGES = ("ui_message_stream", "ag_ui")
_SHORT = {"openai_chat": "chat", "openai_responses": "responses"}


class Client(NamedTuple):
    """A kind of HTTP client.

    Attributes:
        http: Its package.
        transports: The module of transports for it.
        reads_async: Whether it is asynchronous.
    """

    http: Any
    transports: Any
    reads_async: bool

    @property
    def title(self) -> str:
        """Short name of the client."""
        return f"{self.http.__name__}{'' if self.reads_async else ' sync'}"

    def raw(self, reads: list[bytes]) -> Run:
        """Return a run that reads the provider's stream directly."""
        return self._exchange(lambda: self._memory(reads), "openai_chat")

    def transcoded(self, reads: list[bytes], source: str, target: str) -> Run:
        """Return a run that reads the provider's stream in the dialect `target`."""

        def transport() -> Any:
            return self.transports.TranscodingTransport(
                self._memory(reads), client=target, upstream=source, base_url=_BASE_URL
            )

        return self._exchange(transport, target)

    def _memory(self, reads: list[bytes]) -> Any:
        """Return a transport that answers with a stream."""
        body = type("Body", (_Body, self.http.SyncByteStream, self.http.AsyncByteStream), {})
        headers = {"content-type": "text/event-stream"}
        return self.http.MockTransport(
            lambda _: self.http.Response(200, headers=headers, stream=body(reads))
        )

    def _exchange(self, transport: Callable[[], Any], dialect: str) -> Run:
        """Return a run of one exchange, and assert its outcome once."""
        encoded = encode_request(_REQUEST, dialect)
        url, headers = _BASE_URL + encoded.path, {"content-type": "application/json"}
        asked = {"url": url, "headers": headers, "content": msgspec.json.encode(encoded.body)}
        network = transport()
        if self.reads_async:
            run = _on_loop(self.http.AsyncClient(transport=network), asked)
        else:
            run = _sync(self.http.Client(transport=network), asked)
        run()
        if isinstance(network, self.transports.TranscodingTransport):
            assert isinstance(network.outcome, Completed)
        return run


class _Body:
    """A response body whose reads are always ready.

    Its iterators are generators, as those of the packages' network transports are.
    """

    def __init__(self, reads: list[bytes]) -> None:
        self._reads = reads

    def __iter__(self) -> Iterator[bytes]:
        yield from self._reads

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for read in self._reads:
            yield read


def _sync(client: Any, asked: dict[str, Any]) -> Run:
    def run() -> None:
        with client.stream("POST", **asked) as response:
            for _ in response.iter_bytes():
                pass

    return run


def _on_loop(client: Any, asked: dict[str, Any]) -> Run:
    loop = asyncio.new_event_loop()

    async def exchange() -> None:
        async with client.stream("POST", **asked) as response:
            async for _ in response.aiter_bytes():
                pass

    return lambda: loop.run_until_complete(exchange())


_CLIENTS = (
    Client(httpx2, streamnorm.transports.httpx2, True),
    Client(httpx2, streamnorm.transports.httpx2, False),
    Client(httpx, streamnorm.transports.httpx, True),
    Client(httpx, streamnorm.transports.httpx, False),
)


class _Cell(NamedTuple):
    """One measured combination of stream, client and read size."""

    workload: Workload
    reads: str
    client: Client
    target: str

    @property
    def name(self) -> str:
        """Name of the run through the transport."""
        return f"{self.workload.name}, {self.reads}, {self.client.title}, to {self.target}"

    @property
    def raw_name(self) -> str:
        """Name of the run without the transport."""
        return f"{self.workload.name}, {self.reads}, {self.client.title}"

    @property
    def codec_name(self) -> str:
        """Name of the run of a bare transcoder."""
        return f"{self.workload.name}, {self.reads}, to {self.target}"

    def bar(self, u: float) -> float:
        """Return the bar for an event, in U: transcoding plus transport."""
        transcoding = Column(self.target, 2, 1.2).bar(self.workload, u, halves=self.reads == HALVES)
        return transcoding + _TRANSPORT_BAR


def report(rounds: int) -> list[Figure]:
    """Print the cost of each workload at each read size, in U; return the figures."""
    figures: list[Figure] = []
    for workload in (each for each in workloads(EVENTS) if each.dialect not in _PAGES):
        figures += _measure(workload, rounds)
    return figures


def _cells(workload: Workload) -> list[_Cell]:
    """Return the measured combinations of read size, client and target."""
    cells = [
        _Cell(workload, reads, client, workload.other) for reads in READS for client in _CLIENTS
    ]
    others = [target for target in DIALECTS if target not in (workload.other, workload.dialect)]
    for reads in (ONE_EVENT, SEGMENTS):
        cells += [_Cell(workload, reads, _CLIENTS[0], target) for target in others]
    return cells


def _measure(workload: Workload, rounds: int) -> list[Figure]:
    """Print and return the figures of a workload."""
    cells = {cell.name: cell for cell in _cells(workload)}
    unit_payloads = chat.text(1000)
    runs = {"U": decode_json(unit_payloads), "u": decode_json(workload.payloads)}
    for cell in cells.values():
        reads = READS[cell.reads](workload.frames)
        runs[cell.name] = cell.client.transcoded(reads, workload.dialect, cell.target)
        runs[cell.raw_name] = cell.client.raw(reads)
        runs[cell.codec_name] = _codec(reads, workload.dialect, cell.target)
    best = fastest(runs, min(rounds, _MAX_ROUNDS))
    unit = best["U"] / len(unit_payloads)
    u = best["u"] / len(workload.payloads) / unit
    figures: dict[str, Figure] = {}
    codecs: dict[str, float] = {}
    for name, cell in cells.items():
        value = (best[name] - best[cell.raw_name]) / len(workload.frames) / unit
        figures[name] = Figure(name, value, cell.bar(u))
        codecs[cell.codec_name] = best[cell.codec_name] / len(workload.frames) / unit
    _print(workload, u, figures, codecs)
    return list(figures.values())


def _codec(reads: list[bytes], source: str, target: str) -> Run:
    """Return a run of a transcoder that stores no message, as in the transport."""

    def run() -> None:
        transcoder = Transcoder(source, target, keep_message=False)
        for read in reads:
            transcoder.feed(read)
        transcoder.close()

    return run


def _print(
    workload: Workload, u: float, figures: dict[str, Figure], codecs: dict[str, float]
) -> None:
    print(f"\n{workload.name}, through the transport, in U beside the client alone; u = {u:.2f} U")
    columns = list(dict.fromkeys((cell.client, cell.target) for cell in _cells(workload)))
    titles = [f"{client.title} {_SHORT.get(target, target)}" for client, target in columns]
    print(" " * 18 + "".join(f"{title:>{_WIDTH}}" for title in (*titles, "codec", "bar")))
    for reads in READS:
        row = [figures.get(_Cell(workload, reads, *column).name) for column in columns]
        cells = [
            " " * _WIDTH if each is None else f"{each.value:{_WIDTH - 1}.2f}{each.mark}"
            for each in row
        ]
        first = _Cell(workload, reads, *columns[0])
        cells += [f"{value:{_WIDTH - 1}.2f} " for value in (codecs[first.codec_name], first.bar(u))]
        print(f"{reads:18}" + "".join(cells).rstrip())
