"""This package beside its peers, where their costs are compared.

Entry point: an httpx client with a `TranscodingTransport` for each pair of dialects.
"""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
from driver import Answer, Job, path_of, run

# Those of this checkout, and not of an installation.
sys.path.insert(0, str(Path(__file__).parents[3]))

from streamnorm import __version__
from streamnorm.transports.httpx import TranscodingTransport

UPSTREAM = sys.argv[1]
BASES = {
    "openai_chat": f"{UPSTREAM}/v1",
    "anthropic": UPSTREAM,
    "openai_responses": f"{UPSTREAM}/v1",
    "gemini": UPSTREAM,
}
_clients: dict[tuple[str, str], httpx.AsyncClient] = {}


async def ask(job: Job) -> Answer:
    """Ask through the transport."""
    source, target = job.source, job.target
    client = _clients.get((source, target))
    if client is None:
        transport = TranscodingTransport(client=target, upstream=source, base_url=BASES[source])
        client = _clients[source, target] = httpx.AsyncClient(transport=transport)
    url = "http://client" + path_of(target, job.model or "m")
    async with client.stream("POST", url, json=job.request, timeout=60) as response:
        parts = [part async for part in response.aiter_raw()]
    return response.status_code, b"".join(parts)


if __name__ == "__main__":
    pairs = [(source, target) for source in BASES for target in BASES if source != target]
    run(__version__, pairs, ask)
