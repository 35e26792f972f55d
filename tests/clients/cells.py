"""One run of an agent: a scripted upstream, a gateway in front of it, and the agent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from asyncio.subprocess import DEVNULL, create_subprocess_exec
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from clients import installs
from clients.agent import Agent, Expected, Outcome, Report
from clients.growth import changed_histories
from clients.upstream import Upstream
from clients.variants import MODELS, VENDORS, Variant
from support.bedrock.signatures import KEY_ID, SECRET
from support.bedrock.upstream import SignedApp
from support.bodies.history_rules import broken_rules
from support.gateway.processes import gateway_process
from support.gateway.remembering import Remembering
from support.gateway.servers import served
from support.gateway.socket_tap import SentCreate, SocketTap

__all__ = ["Cell", "Run", "run_cell"]

_MAX_RUN_S = 90.0
_REGION = "eu-west-1"
_AWS = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}


class Cell(NamedTuple):
    """An agent, the dialect of its upstream, and a variant."""

    agent: Agent
    upstream: str
    variant: Variant

    def __str__(self) -> str:
        return f"{self.agent.name} on {self.upstream}, {self.variant.name}"

    @property
    def upstream_settings(self) -> str:
        """Settings of the gateway's upstream, in TOML."""
        server = self.variant.server or VENDORS[self.upstream]
        # What an agent sends passes to its own vendor, for the model that it was made for.
        model = "" if self.agent.dialect == self.upstream else f"/{MODELS[self.upstream]}"
        further = self.variant.upstream.replace("{model}", model)
        key = f'key = "aws"\nregion = "{_REGION}"\n' if self.is_signed else ""
        transport = 'transport = "websocket"\n' if self.variant.has_websockets else ""
        return f'server = "{server}"\n{key}{transport}{further}'

    @property
    def is_signed(self) -> bool:
        """Whether requests to the upstream are signed, as those to Amazon Bedrock are."""
        return self.upstream == "bedrock_converse"

    @property
    def reasons(self) -> bool:
        """Whether the model reasons.

        OpenAI shows no reasoning on Chat Completions and refuses to get any, which agents of
        the dialect would send back.
        """
        is_own = self.agent.dialect == self.upstream == "openai_chat"
        return self.variant.reasons and not (is_own and self.variant.server is None)

    @property
    def expected(self) -> Expected:
        return self.agent.expect(self.variant.name, self.upstream)


class Run(NamedTuple):
    """How a cell ended.

    Attributes:
        requests: How many requests for messages reached the upstream.
        outcome: How it ended.
        seconds: How long it took.
        wrong: What differs from what is expected.
    """

    requests: int
    outcome: Outcome
    seconds: float
    wrong: list[str]


async def run_cell(cell: Cell, folder: Path) -> Run:
    """Run an agent once.

    Args:
        cell: What to run.
        folder: An empty folder; the output of the agent, the gateway's log and
            the requests that reached the upstream remain in it.
    """
    task = cell.variant.task
    work, home = folder / "work", folder / "home"
    work.mkdir(parents=True)
    home.mkdir()
    for name, text in task.files.items():
        (work / name).write_bytes(text.encode() if isinstance(text, str) else text)
    variant = cell.variant._replace(reasons=cell.reasons)
    has_ids = cell.agent.keeps_call_ids and not variant.renames_calls
    has_signatures = (
        cell.upstream not in cell.agent.drops_signatures and not variant.drops_signatures
    )
    upstream = Upstream(cell.upstream, variant, cell.agent.read, work, has_ids=has_ids)
    app = SignedApp(upstream.app, _REGION) if cell.is_signed else Remembering(upstream.app)
    began = time.monotonic()
    with (folder / "gateway.log").open("w") as log:
        async with (
            # It is strict itself.
            served(app, strict=False, has_websockets=variant.has_websockets) as url,
            gateway_process(
                url,
                folder,
                dialect=cell.upstream,
                settings=cell.variant.settings,
                upstream=cell.upstream_settings,
                log=log,
                environ={**_AWS, **cell.variant.environ},
            ) as gateway,
            _tapped(cell, folder, gateway.url) as agent_url,
        ):
            ended, report = await _run_agent(cell, folder, agent_url, upstream)
    seconds = time.monotonic() - began
    bodies = [request.body for request in upstream.requests]
    if isinstance(app, Remembering):
        _write_creates(folder / "upstream-creates.jsonl", app.creates)
    for number, body in enumerate(bodies, 1):
        (folder / f"request-{number}.json").write_text(json.dumps(body, indent=1))
    outcome = ended or _outcome(report, task.answer)
    sent = json.dumps(bodies)
    wrong = [
        *upstream.unanswered,
        *(f"refused: {refusal}" for refusal in upstream.refusals),
        *(f"a request has {piece}" for piece in cell.variant.forbidden if piece in sent),
    ]
    if (len(bodies), outcome) != cell.expected[:2]:
        expected = cell.expected
        wrong.append(
            f"{len(bodies)} requests, {outcome}; expected {expected.requests}, "
            f"{expected.outcome}: {expected.why}"
        )
    if outcome == "answered":
        wrong += _broken_rules(cell, upstream)
        # An increment follows an answer that came back whole.
        if variant.has_websockets and has_ids and has_signatures:
            wrong += _whole_create(folder / "upstream-creates.jsonl")
        wrong += task.wrong(
            upstream.requests,
            cell.agent.read,
            folder,
            reasons=cell.reasons,
            has_ids=has_ids,
            has_signatures=has_signatures,
            has_reasoning_ids=not (
                cell.agent.drops_reasoning_ids and cell.upstream == cell.agent.dialect
            ),
        )
    return Run(len(bodies), outcome, seconds, wrong)


@asynccontextmanager
async def _tapped(cell: Cell, folder: Path, url: str) -> AsyncIterator[str]:
    """Provide the URL for the agent: that of the gateway, or of a proxy in front of it."""
    if not cell.variant.is_tapped:
        yield url
        return

    def begin(number: int) -> None:
        # A create that asks no model has an answer, too.
        if tap.creates[number - 1].message.get("generate") is not False:
            (folder / "answering").touch()

    tap = SocketTap(url, cell.variant.cut_at, begin)
    async with tap.running():
        yield tap.url
    _write_creates(folder / "creates.jsonl", tap.creates)


def _write_creates(path: Path, creates: list[SentCreate]) -> None:
    """Write creates, a line for each, with the number of the connection as `at`."""
    lines = [json.dumps({"at": create.connection, **create.message}) for create in creates]
    path.write_text("".join(f"{line}\n" for line in lines))


def _whole_create(path: Path) -> list[str]:
    """Return what is wrong if the last create, with the results of calls, has all before them."""
    last = json.loads(path.read_text().splitlines()[-1])
    is_whole = last.get("previous_response_id") is None
    return ["the last create of the gateway is whole"] if is_whole else []


def _broken_rules(cell: Cell, upstream: Upstream) -> list[str]:
    """Return what is wrong with the histories that the gateway has written.

    Those of the upstream's own dialect are the agent's.
    """
    written = [one for one in upstream.requests if one.dialect != cell.agent.dialect]
    broken = [
        f"request {at}: {rule}"
        for at, request in enumerate(written, 1)
        for rule in broken_rules(str(request.dialect), request.body)
    ]
    return broken + changed_histories(written)


def _outcome(report: Report, final: str) -> Outcome:
    if report.is_error:
        return "failed"
    return "answered" if report.answer == final else "false end"


async def _run_agent(
    cell: Cell, folder: Path, url: str, upstream: Upstream
) -> tuple[Outcome | None, Report]:
    """Run the agent to its end; return how it was ended, if it did not end itself."""
    program, node = installs.program(cell.agent.program), installs.node()
    assert program is not None
    assert node is not None
    launch = cell.agent.launch(
        program, folder / "home", url, cell.variant.task.prompt, cell.variant.options
    )
    environ = {
        "HOME": str(folder / "home"),
        "PATH": os.pathsep.join([str(node.parent), "/usr/bin", "/bin"]),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **launch.environ,
    }
    output = folder / "agent.out"
    ended: Outcome | None = None
    with output.open("wb") as out, (folder / "agent.err").open("wb") as err:
        process = await create_subprocess_exec(
            *launch.arguments,
            cwd=folder / "work",
            env=environ,
            stdin=DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        loops = asyncio.ensure_future(upstream.overrun.wait())
        exits = asyncio.ensure_future(process.wait())
        try:
            done, _ = await asyncio.wait(
                (loops, exits), timeout=_MAX_RUN_S, return_when=asyncio.FIRST_COMPLETED
            )
            if exits not in done:
                ended = "looped" if loops in done else "hung"
        finally:
            loops.cancel()
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            status = await exits
    return ended, cell.agent.report(output.read_text("utf-8", "replace"), status)
