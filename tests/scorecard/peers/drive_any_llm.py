"""any-llm: its functions `acompletion` and `amessages`, and their events written as SSE.

any-llm is a library without bytes: its typed events are written here as its vendors' servers write
them, and an exception is written as the error of the dialect, behind what was sent.  It converts to
Responses for vendors of Responses alone, which is no conversion.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

from any_llm import acompletion, amessages
from driver import Answer, Job, run, sse

UPSTREAM = sys.argv[1]
PROVIDERS = {
    "openai_chat": ("vllm", "gpt-oss-120b", f"{UPSTREAM}/v1"),
    "anthropic": ("anthropic", "claude-sonnet-4-5", UPSTREAM),
    "gemini": ("gemini", "gemini-2.5-flash", UPSTREAM),
}
PAIRS = [
    ("openai_chat", "anthropic"),
    ("gemini", "anthropic"),
    ("gemini", "openai_chat"),
    ("anthropic", "openai_chat"),
]


async def ask(job: Job) -> Answer:
    """Call the provider of a source as a caller of the target's function."""
    target = job.target
    provider, model, base = PROVIDERS[job.source]
    if job.model is not None:
        provider, model = "openai" if job.source == "openai_chat" else provider, job.model
    arguments = {**job.request, "model": model, "provider": provider}
    arguments |= {"api_key": "none", "api_base": base}
    arguments.pop("stream_options", None)
    if "max_completion_tokens" in arguments:  # under the name that the function has for all
        arguments["max_tokens"] = arguments.pop("max_completion_tokens")
    call = acompletion if target == "openai_chat" else amessages
    events = await call(**arguments)
    parts = []
    try:
        async for event in events:
            data = event.model_dump_json(exclude_none=True)
            parts.append(sse(data, None if target == "openai_chat" else event.type))
    except Exception as exc:  # noqa: BLE001 - whatever it raises is its answer
        error = {"message": str(exc), "type": "api_error"}
        if target == "openai_chat":
            parts.append(sse(json.dumps({"error": error})))
        else:
            parts.append(sse(json.dumps({"type": "error", "error": error}), "error"))
    else:
        if target == "openai_chat":
            parts.append(sse("[DONE]"))
    return 200, b"".join(parts)


if __name__ == "__main__":
    run(version("any-llm-sdk"), PAIRS, ask)
