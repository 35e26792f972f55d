"""The variants of a run: what the scripted upstream does besides answering."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from clients.tasks import READ_AND_VIEW, READ_FILES, READ_ON, Task

from streamnorm.recording.recording import Rechunk
from streamnorm.sse import Frame
from streamnorm.testing import faults

__all__ = ["MODELS", "SERVERS", "VARIANTS", "VENDORS", "Variant"]

_ALL = ("anthropic", "openai_chat", "openai_responses", "gemini")
_CONVERSE = "bedrock_converse"
# Variants that damage lines, or move to another upstream, are not for messages of AWS.
_EVERY = (*_ALL, _CONVERSE)


class Variant(NamedTuple):
    """A variant.

    Attributes:
        name: Its name on the command line.
        streams: Faults of the first streams, one after the other.
        each: Faults of all streams.
        whole: Faults of all whole bodies.
        refusals: Faults that answer instead of the script.
        rechunk: How bodies are cut into pieces.
        reasons: Whether the model reasons.
        interleaves: Whether the arguments of parallel calls are interleaved.
        settings: Settings of the gateway, in TOML.
        environ: Variables of the gateway's environment.
        server: Name of the upstream's server; None is the vendor of its dialect.
        upstream: Further settings of the upstream, and tables behind it, in TOML; `{url}`
            stands for its URL, `{model}` for a slash and a model of its vendor.
        has_websockets: Whether the gateway asks the upstream over WebSockets; what it sends is then
            in `upstream-creates.jsonl`.
        moves: Whether the upstream is overloaded from its second answer on.
        forbidden: Pieces of JSON that no request to the upstream may have.
        dialects: Dialects of the upstreams that it is for.
        drops_signatures: Whether the server gets no reasoning back.
        renames_calls: Whether the server does not take the script's ids of calls.
        options: Words that the agent's own `launch` knows.
        is_tapped: Whether a proxy writes down what the agent sends over WebSockets: its creates
            in `creates.jsonl`, and `answering` once the first answer has begun.
        cut_at: Number of the create at whose first event that proxy resets the connection; 0
            for none.
        task: The task.
    """

    name: str
    streams: tuple[faults.Fault, ...] = ()
    each: tuple[faults.Fault, ...] = ()
    whole: tuple[faults.Fault, ...] = ()
    refusals: tuple[faults.Fault, ...] = ()
    rechunk: Rechunk = "event"
    reasons: bool = True
    interleaves: bool = False
    settings: str = ""
    environ: Mapping[str, str] = MappingProxyType({})
    server: str | None = None
    upstream: str = ""
    has_websockets: bool = False
    moves: bool = False
    forbidden: tuple[str, ...] = ()
    dialects: tuple[str, ...] = _ALL
    drops_signatures: bool = False
    renames_calls: bool = False
    options: tuple[str, ...] = ()
    is_tapped: bool = False
    cut_at: int = 0
    task: Task = READ_FILES


def _second_call(frame: Frame) -> bool:
    return "Read2" in frame.data


def _final_text(frame: Frame) -> bool:
    return "words" in frame.data


def _moved_to(dialect: str) -> Variant:
    """Return the variant of a task that goes on on an upstream of another dialect."""
    return Variant(
        f"to_{dialect}",
        upstream=_OTHER.replace("{dialect}", dialect).replace("{server}", VENDORS[dialect]),
        moves=True,
        dialects=tuple(name for name in _ALL if name != dialect),
    )


_OTHER = """
[upstreams.other]
dialect = "{dialect}"
base_url = "{url}"
server = "{server}"

[[models]]
match = "*"
to = ["local", "other"]
"""

VENDORS = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "google",
    _CONVERSE: "bedrock",
}
"""Names of the vendors, by dialect."""

MODELS = {
    "anthropic": "claude-opus-4-8",
    "openai_chat": "gpt-5.5",
    "openai_responses": "gpt-5.5",
    "gemini": "gemini-3-pro-preview",
    _CONVERSE: "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}
"""A model of each vendor that refuses much."""

_ASKED_FOR = """
[[models]]
match = "*"
to = ["local{model}"]
"""

VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("plain", dialects=_EVERY),
        Variant("no_reasoning", reasons=False, dialects=_EVERY),
        # Rounds of parallel calls and an image, for a model of the vendor.
        Variant("turns", upstream=_ASKED_FOR, task=READ_AND_VIEW, dialects=_EVERY),
        # A server that nobody knows but by its dialect.
        Variant("compatible", server="compatible", dialects=("openai_chat",)),
        # A server of open models, which knows neither these roles nor these tools.
        Variant(
            "vllm",
            server="vllm",
            forbidden=('"role": "developer"', '"type": "custom"'),
            dialects=("openai_chat",),
        ),
        Variant("over_websocket", has_websockets=True, dialects=("openai_responses",)),
        # The other dialects send whole calls, or one block after the other.
        Variant("interleaved", interleaves=True, dialects=("openai_chat", "openai_responses")),
        Variant("crlf", each=(faults.crlf(),)),
        Variant("bytewise", rechunk="byte", dialects=_EVERY),
        Variant("no_done", each=(faults.drop(event=-1),), dialects=("openai_chat",)),
        Variant("429_first", refusals=(faults.http(429),), dialects=_EVERY),
        Variant("529_first", refusals=(faults.http(529),)),
        # Longer than `keepalive_s`: the agent gets pings.
        Variant("pause", streams=(faults.stall(event=2, s=1.0),), settings="keepalive_s = 0.2"),
        Variant("cut", streams=(faults.cut(event=2),)),
        Variant("cut_calls", streams=(faults.cut(when=_second_call),), dialects=_EVERY),
        Variant("cut_final", streams=(faults.crlf(), faults.cut(when=_final_text))),
        Variant("error", streams=(faults.error_event(event=2),)),
        Variant(
            "silent",
            streams=(faults.stall(event=2),),
            settings="idle_s = 1.0\nkeepalive_s = 0.2",
        ),
        Variant("always_cut", each=(faults.cut(event=2),), whole=(faults.cut(byte=20),)),
        *map(_moved_to, _ALL),
        # Claude goes on with the calls of a model that does not think.
        _moved_to("anthropic")._replace(name="to_thinking", reasons=False),
        Variant("always_529", refusals=(faults.http(529, times=None),)),
    )
}
"""The variants of all agents, by name."""


def _at(
    server: str, model: str, *dialects: str, task: Task = READ_AND_VIEW, **options: bool
) -> Variant:
    """Return the variant of three turns on a server that refuses other things than the vendor."""
    further = _ASKED_FOR.replace("{model}", f"/{model}")
    return Variant(
        f"at_{server}", server=server, upstream=further, task=task, dialects=dialects, **options
    )


SERVERS = (
    _at("azure", "gpt-5.5", "openai_chat", "openai_responses"),
    _at("cerebras", "gpt-oss-120b", "openai_chat"),
    _at("chatgpt", "gpt-5.5", "openai_responses"),
    _at("copilot", "gpt-5.5", "openai_responses"),
    _at("copilot", "claude-opus-4.8", "anthropic", "openai_chat"),
    _at(
        "deepseek", "deepseek-v4-pro", "anthropic", "openai_chat", "openai_responses", task=READ_ON
    ),
    _at("glm", "glm-5.2", "openai_chat"),
    _at("groq", "openai/gpt-oss-120b", "openai_chat"),
    _at("kimi", "kimi-k2.6", "anthropic", "openai_chat"),
    _at("llama.cpp", "qwen3-8b", "openai_chat"),
    _at("lmstudio", "qwen3-8b", "openai_chat"),
    _at("minimax", "MiniMax-M3", "anthropic", "openai_chat"),
    # Its ids have nine letters and digits.
    _at("mistral", "mistral-large-latest", "openai_chat", renames_calls=True),
    _at("ollama", "qwen3:8b", "openai_chat", "openai_responses"),
    _at("openrouter", "anthropic/claude-sonnet-4.6", "openai_chat"),
    _at("qwen", "qwen3-max", "anthropic", "openai_chat"),
    _at("vertex", "claude-opus-4-8", "anthropic"),
    # Versions before 0.15 refuse thinking in the history.
    _at("vllm", "qwen3-8b", "anthropic", drops_signatures=True),
    _at("vllm", "qwen3-8b", "openai_chat", "openai_responses"),
    _at("xai", "grok-4.5", "openai_chat", "openai_responses"),
)
"""Servers with rules of their own, for one agent of each dialect."""
