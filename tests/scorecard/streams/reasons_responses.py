"""The server or failure that each Responses stream is from."""

from __future__ import annotations

__all__ = ["REASONS"]

_LOST = "A proxy or a resumed stream loses events."
_INDEX = "Converters from Chat mix up the indexes of reasoning, text and calls."
_RETRY = "A gateway that retries its upstream splices the second answer into the first."
_TERMINAL = "A gateway builds the last event apart from the others."
_LATE = "Converters from Chat send fragments behind the end of their item."

REASONS: dict[str, str] = {
    "01 pieces of two calls in turn": "xAI and OpenRouter keep several items open at once.",
    "02 lost last delta": _LOST,
    "03 lost deltas, whole in the terminal alone": _LOST,
    "04 terminal with ids of its own": "GitHub Copilot gives each event new ids.",
    "05 whole with other white space": "Servers that write complete arguments anew.",
    "06 calls without deltas": "Servers that send complete items only.",
    "07 calls in the terminal alone": "Servers that send the output at the end only.",
    "08 ids that change with each event": "GitHub Copilot gives each event new ids.",
    "09 no indexes and no numbers": "Servers of spring 2025 and llama.cpp leave them out.",
    "10 one index for all items": "llama.cpp uses an output index twice.",
    "11 last event resent": "A resumed stream repeats the last event.",
    "12 number of all events the same": "Compatible servers that do not count events.",
    "13 name of the call in its last event alone": "Servers that name a call when it is complete.",
    "14 text and a call at one index of two items": _INDEX,
    "15 lost delta of a text": _LOST,
    "16 call that goes nowhere but into itself": "Servers without output_index and item_id.",
    "17 delta lost in the middle": _LOST,
    "18 delta of a text lost": _LOST,
    "19 two deltas swapped": "A proxy that handles events in parallel.",
    "20 two numbers swapped": "A proxy that handles events in parallel.",
    "21 unknown item at the index of a call": _INDEX,
    "22 id of one call at the index of another": _INDEX,
    "23 nameless piece beside two calls": _INDEX,
    "24 delta after the complete arguments": _LATE,
    "25 delta after the complete item": _LATE,
    "26 complete item of another call": _INDEX,
    "27 second complete item at one index": _INDEX,
    "28 terminal with another call at the position": _TERMINAL,
    "29 terminal without a call that came": _TERMINAL,
    "30 terminal with other arguments": _TERMINAL,
    "31 failed response that says completed": _TERMINAL,
    "32 completed response with an error": _TERMINAL,
    "33 incomplete response that says completed": _TERMINAL,
    "34 second answer behind the first": _RETRY,
    "35 answer begun again": _RETRY,
    "36 end of another response": _RETRY,
    "37 call without a name": _LOST,
    "38 name of another tool": _TERMINAL,
    "39 two calls with one id": "Bedrock Mantle reuses ids of tool calls.",
    "40 text at the index of a call": _INDEX,
    "41 delta after its complete text": _LATE,
    "42 call of which nothing came": "Codex behind converters: arguments are never sent.",
    "43 text without a part beside two": _INDEX,
}
