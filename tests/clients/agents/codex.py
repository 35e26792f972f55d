"""Codex."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

from clients.agent import Agent, Expected, Launch, Report, default_of, one_after_the_other
from clients.histories import history_of
from clients.tasks import READ_FILES, READ_TEN, Asked, Call, Task, signed, text_call
from clients.variants import SERVERS, VARIANTS, Variant
from msgspec import structs

from streamnorm import Block, Text, ToolCall
from streamnorm.testing import FakeRequest, faults, tool_call

__all__ = ["CODEX"]

_UPSTREAMS = ("openai_chat", "anthropic", "gemini", "bedrock_converse", "openai_responses")

_CONFIG = """
model = "{model}"
model_provider = "gateway"
check_for_update_on_startup = false
{limit}

[model_providers.gateway]
name = "{name}"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 2
stream_max_retries = 2
stream_idle_timeout_ms = 5000

[analytics]
enabled = false
"""


_BUILT_IN = """
model = "{model}"
openai_base_url = "{url}/v1"
check_for_update_on_startup = false
{limit}

[analytics]
enabled = false
"""


# More than the first request and its answer need, less than with the words of `_Compacted`.
_COMPACT_AT = "model_auto_compact_token_limit = 25000"


def _launch(program: Path, home: Path, url: str, prompt: str, options: tuple[str, ...]) -> Launch:
    model = next((word[6:] for word in options if word.startswith("model=")), "gpt-5.1-codex")
    config = _BUILT_IN if "built-in" in options else _CONFIG
    # Codex lets the server compact only if it is named so.
    compacts = "compacts" in options
    name, limit = ("OpenAI", _COMPACT_AT) if compacts else ("gateway", "")
    (home / ".codex").mkdir()
    text = config.format(url=url, model=model, name=name, limit=limit)
    (home / ".codex" / "config.toml").write_text(text)
    arguments: list[str | Path] = [program, "exec", "--json", "--skip-git-repo-check"]
    arguments += ["--dangerously-bypass-approvals-and-sandbox", prompt]
    if "follow-up" in options:
        arguments = one_after_the_other(arguments, _resume(arguments, _FOLLOW_UP[0]))
    if "interrupted" in options:
        command, resumed = shlex.join(map(str, arguments)), _resume(arguments, "Go on.")
        script = f"{command} & {_INTERRUPT}; {shlex.join(map(str, resumed))}"
        arguments = ["/bin/sh", "-c", script]
    environ = {"CODEX_API_KEY": "sk-dummy"} if "built-in" in options else {}
    return Launch(arguments, {"CODEX_HOME": str(home / ".codex"), **environ})


def _resume(arguments: list[str | Path], prompt: str) -> list[str | Path]:
    """Return the command that goes on with the conversation of another command."""
    return [*arguments[:2], "resume", "--last", *arguments[2:-1], prompt]


# Ctrl-C, once the first answer has begun.
_INTERRUPT = "while kill -0 $! && [ ! -e ../answering ]; do sleep 0.05; done; kill -INT $!; wait $!"
_FOLLOW_UP = ("Say the second word again.", "FINAL ANSWER: fjäll ✓.")


def _read(asked: Asked, id: str, name: str) -> ToolCall:
    if name.endswith(".png"):
        return structs.replace(tool_call("view_image", path=str(asked.folder / name)), id=id)
    command = json.dumps({"cmd": f"cat {name}"})
    if "exec_command" in asked.tools:
        return ToolCall(id, "exec_command", command)
    # Newer models write a program that calls the tools.
    return text_call(asked, id, "exec", f"text((await tools.exec_command({command})).output);\n")


def _report(output: str, status: int) -> Report:
    """Read the lines of `--json`: the last message of the agent, and whether its turn failed."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    items = [line["item"] for line in lines if line["type"] == "item.completed"]
    said = [item["text"] for item in items if item["type"] == "agent_message"]
    ended = any(line["type"] == "turn.completed" for line in lines)
    return Report(said[-1] if said else "", bool(status) or not ended)


def _expect(variant: str, upstream: str) -> Expected:
    # The built-in provider does the same over a WebSocket.
    name = variant.removeprefix("built_in_")
    return _EXPECTED.get(variant) or _EXPECTED.get(name) or default_of(name)


_AGAIN = "a stream that broke off is asked for again, stream_max_retries times"
_TEN_TURNS = Expected(11, "answered", "ten calls, one after the other")
_EXPECTED = {
    "follow_up": Expected(3, "answered", "two turns, and the answer to what the user says then"),
    "429_first": Expected(3, "answered", "a turn that got a 429 is begun again"),
    "529_first": Expected(3, "answered", "a request that got a 5xx is sent again"),
    "cut": Expected(3, "answered", _AGAIN),
    "cut_calls": Expected(3, "answered", _AGAIN),
    "cut_final": Expected(3, "answered", _AGAIN),
    "error": Expected(1, "failed", "server_is_overloaded within a stream is not retried"),
    "silent": Expected(3, "answered", _AGAIN),
    "always_cut": Expected(3, "failed", _AGAIN),
    "compacts": Expected(3, "answered", "a turn, its compaction, and what goes on from that"),
    "ten_turns": _TEN_TURNS,
    "built_in_over_websocket": _TEN_TURNS,
    "cut_socket": Expected(12, "answered", f"eleven turns, one of them twice: {_AGAIN}"),
    "interrupted": Expected(3, "answered", "an answer that is left, then two turns"),
    "always_529": Expected(
        9, "failed", "request_max_retries in each of stream_max_retries: 3 times 3"
    ),
}

_PATCH = """*** Begin Patch
*** Add File: three.txt
+A "quoted" word, a \\ and fjäll ✓.
*** End Patch
"""


def _patch(asked: Asked, read: Call) -> list[ToolCall]:
    return [text_call(asked, "call_Patch", "apply_patch", _PATCH)]


def _differing_file(requests: list[dict[str, Any]], folder: Path) -> list[str]:
    made = folder / "work" / "three.txt"
    if made.exists() and made.read_text() == 'A "quoted" word, a \\ and fjäll ✓.\n':
        return []
    return ["the patch was not applied as it was sent"]


_PATCH_FILE = Task(
    prompt="Write the file three.txt.",
    files={},
    final="FINAL ANSWER: three.txt is there.",
    rounds=[_patch],
    results=["Success"],
    problems=_differing_file,
)


def _not_over_http(requests: list[dict[str, Any]], folder: Path) -> list[str]:
    refused = (folder / "gateway.log").read_text().count("status=426")
    return [] if refused == 1 else [f"{refused} WebSockets were refused, expected 1"]


def _not_over_websocket(requests: list[dict[str, Any]], folder: Path) -> list[str]:
    # Over a WebSocket alone, Codex has a response prepared, for which no upstream is asked.
    log = (folder / "gateway.log").read_text()
    prepared = log.count('upstream="" status=200')
    return [] if prepared and "status=426" not in log else ["no response was prepared"]


_RESULTS = {"function_call_output", "custom_tool_call_output"}
_MAX_RESULT_BYTES = 1000


def _not_new(requests: list[dict[str, Any]], folder: Path) -> list[str]:
    """Return which creates send more than what is new since the response that they name."""
    return _whole_creates(folder / "creates.jsonl") + _not_over_websocket(requests, folder)


def _whole_creates(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    creates = [create for create in map(json.loads, lines) if create.get("generate") is not False]
    found: list[str] = []
    for number, (before, after) in enumerate(pairwise(creates), 2):
        sent = len(json.dumps(after["input"]))
        kinds = {item["type"] for item in after["input"]}
        if before["at"] != after["at"]:  # another connection, which knows nothing
            if after.get("previous_response_id") is not None:
                found.append(f"create {number}, the first of its connection, names a response")
        elif after.get("previous_response_id") is None or kinds - _RESULTS:
            found.append(f"create {number} has {sorted(kinds)}, expected results of calls alone")
        elif sent > _MAX_RESULT_BYTES:
            found.append(f"create {number} has {sent} bytes of input, expected fewer")
    return found


def _not_new_upstream(requests: list[dict[str, Any]], folder: Path) -> list[str]:
    """Return which creates send more than what is new, of those of Codex and of the gateway."""
    return _not_new(requests, folder) + _whole_creates(folder / "upstream-creates.jsonl")


def _not_new_but_for_one(requests: list[dict[str, Any]], folder: Path) -> list[str]:
    lines = (folder / "creates.jsonl").read_text().splitlines()
    connections = {json.loads(line)["at"] for line in lines}
    wrong = [] if len(connections) == 2 else [f"{len(connections)} connections, expected 2"]
    return wrong + _not_new(requests, folder)


_OVER_HTTP = READ_FILES._replace(problems=_not_over_http)
_OVER_WEBSOCKET = READ_FILES._replace(problems=_not_over_websocket)

# What the built-in provider does over a WebSocket.
_BUILT_IN_VARIANTS = tuple(
    VARIANTS[name]._replace(name=f"built_in_{name}", options=("built-in",), task=_OVER_WEBSOCKET)
    for name in ("429_first", "pause", "cut", "cut_calls", "error", "529_first")
)


class _Compacted(Task):
    """A task whose first answer fills the context, so that Codex has it compacted."""

    def turn(
        self,
        dialect: str,
        body: dict[str, Any],
        read: Call,
        folder: Path,
        *,
        has_ids: bool = True,
    ) -> list[Block]:
        sent = json.dumps(body)
        if _INSTRUCTION in sent:
            return [*signed(dialect, "All of it.", 2), Text(_SUMMARY)]
        if _SUMMARY in sent:
            return [Text(self.final)]
        blocks = super().turn(dialect, body, read, folder, has_ids=has_ids)
        return [Text("word " * 15_000), *[one for one in blocks if isinstance(one, ToolCall)]]

    def wrong(
        self,
        requests: list[FakeRequest],
        read: Call,
        folder: Path,
        *,
        reasons: bool = True,
        has_ids: bool = True,
        has_signatures: bool = True,
        has_reasoning_ids: bool = True,
    ) -> list[str]:
        found: list[str] = []
        histories = [history_of(str(one.dialect), one.body) for one in requests]
        sent = [json.dumps(request.body) for request in requests]
        if [len(history.results) for history in histories] != [0, 2, 0]:
            found.append("results, expected those of two calls in the request for a summary alone")
        if [_INSTRUCTION in one for one in sent] != [False, True, False]:
            found.append("the second request is not the one for a summary")
        return found + ([] if _SUMMARY in sent[-1] else ["the summary is not sent back"])


_INSTRUCTION = "This conversation will now be replaced by a summary of it."
_SUMMARY = "1. Task: say the words of two files. 2. State: they are larch and fjord."

CODEX = Agent(
    name="codex",
    dialect="openai_responses",
    program="@openai/codex-*/vendor/*/bin/codex",
    upstreams=_UPSTREAMS,
    launch=_launch,
    read=_read,
    report=_report,
    expect=_expect,
    own_variants=None,
    variants=(
        *SERVERS,
        Variant(
            "follow_up", options=("follow-up",), task=READ_FILES._replace(follow_up=_FOLLOW_UP)
        ),
        Variant("gpt-6-sol", options=("model=gpt-6-sol",)),
        Variant("built_in", options=("built-in",), task=_OVER_WEBSOCKET, dialects=_UPSTREAMS),
        Variant(
            "built_in_http",
            options=("built-in",),
            settings="websockets = false",
            task=_OVER_HTTP,
        ),
        Variant(
            "built_in_follow_up",
            options=("built-in", "follow-up"),
            task=_OVER_WEBSOCKET._replace(follow_up=_FOLLOW_UP),
        ),
        Variant(
            "built_in_compacts",
            dialects=("openai_chat", "anthropic", "gemini", "bedrock_converse"),
            options=("built-in", "compacts"),
            task=_Compacted(*READ_FILES),
        ),
        Variant(
            "built_in_ten_turns",
            dialects=_UPSTREAMS,
            options=("built-in",),
            is_tapped=True,
            task=READ_TEN._replace(problems=_not_new),
        ),
        Variant(
            "built_in_over_websocket",
            has_websockets=True,
            dialects=("openai_responses",),
            options=("built-in",),
            is_tapped=True,
            task=READ_TEN._replace(problems=_not_new_upstream),
        ),
        Variant(
            "built_in_cut_socket",
            dialects=_UPSTREAMS,
            options=("built-in",),
            is_tapped=True,
            cut_at=6,
            task=READ_TEN._replace(problems=_not_new_but_for_one),
        ),
        Variant(
            "built_in_interrupted",
            streams=(faults.stall(event=2),),
            dialects=_UPSTREAMS,
            options=("built-in", "interrupted"),
            is_tapped=True,
            task=_OVER_WEBSOCKET,
        ),
        VARIANTS["turns"]._replace(name="built_in_turns", options=("built-in",)),
        *_BUILT_IN_VARIANTS,
        Variant(
            "compacts",
            dialects=("openai_chat", "anthropic", "gemini"),
            options=("compacts",),
            task=_Compacted(*READ_FILES),
        ),
        Variant("apply_patch", options=("model=gpt-5.5",), task=_PATCH_FILE),
        VARIANTS["vllm"]._replace(name="vllm_patch", options=("model=gpt-5.5",), task=_PATCH_FILE),
    ),
)
