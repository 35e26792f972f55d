"""rosetta-llm's proxy, called as an ASGI app without a server before it.

Entry point: `rosetta.app.create_app`, with a provider for each upstream.  It needs Python 3.12.
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Any

import tiktoken
from driver import Answer, Job, ask_asgi, path_of, run

DIALECTS = ("openai_chat", "anthropic", "openai_responses")
_started: list[Any] = []
_stack = AsyncExitStack()


async def _app() -> Any:
    if not _started:
        # Its counter of tokens, which no stream needs, downloads a vocabulary on import.
        tiktoken.get_encoding = lambda name: None
        from rosetta.app import create_app, lifespan
        from rosetta.config import Config

        providers = {
            dialect: {
                "format": dialect,
                "base_url": f"{sys.argv[1]}/v1",
                "api_key": "none",
                "models": [{"id": "m"}],
            }
            for dialect in DIALECTS
        }
        app = create_app(Config.model_validate({"log_level": "error", "providers": providers}))
        await _stack.enter_async_context(lifespan(app))
        _started.append(app)
    return _started[0]


async def ask(job: Job) -> Answer:
    """Ask the proxy as a client."""
    model = f"{job.source}/{job.model or 'm'}"
    path = path_of(job.target, model)
    return await ask_asgi(await _app(), path, {**job.request, "model": model})


if __name__ == "__main__":
    pairs = [(source, target) for source in DIALECTS for target in DIALECTS if source != target]
    run(version("rosetta-llm"), pairs, ask, _app)
