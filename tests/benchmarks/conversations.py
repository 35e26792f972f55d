"""Cost of encoding one more turn of a long conversation, relative to encoding all of it."""

from __future__ import annotations

from bodies import CONVERSATIONS, DIALECTS, MESSAGES
from timing import Figure, Run, fastest

from streamnorm import Conversation, InputMessage, Request, Text, Tool, encode_request

SIZE = 1000  # bytes of a message
BAR = 1.0

_TOOLS = tuple(Tool(name, "does it", {"type": "object"}) for name in ("read", "write"))


def next_turn(chat: Conversation, dialect: str) -> Run:
    """Append a turn, and dump the conversation."""

    def run() -> None:
        chat.append(InputMessage("assistant", (Text("Done."),)))
        chat.append(InputMessage("user", (Text("Go on."),)))
        chat.dump(dialect)

    return run


def report(rounds: int) -> list[Figure]:
    """Print the cost of one more turn in each dialect, in ms and as a multiple."""
    print(f"\n{'one more turn after 1,000 messages':56}{'ms':>6}{'x the whole':>12}")
    figures: list[Figure] = []
    for name, messages in CONVERSATIONS.items():
        for dialect in DIALECTS:
            request = Request(
                model="model", max_tokens=1000, tools=_TOOLS, messages=tuple(messages(SIZE))
            )
            assert len(request.messages) >= MESSAGES
            chat = Conversation(request)
            chat.dump(dialect)
            runs: dict[str, Run] = {
                "whole": lambda request=request, dialect=dialect: encode_request(request, dialect),
                "turn": next_turn(chat, dialect),
            }
            taken = fastest(runs, min(rounds, 8))
            figure = Figure(f"{name}, {dialect}", taken["turn"] / taken["whole"], BAR)
            figures.append(figure)
            print(f"{figure.name:56}{1000 * taken['turn']:6.1f}{figure.value:10.2f} {figure.mark}")
    return figures
