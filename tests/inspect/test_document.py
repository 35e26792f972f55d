"""A report as JSON."""

from __future__ import annotations

import msgspec

from streamnorm import Completed, Failed, Loss, MessageStop, Note, StreamError, Usage
from streamnorm.inspect.report import Gap, Hold, Rate, Report, Timing, describe_report
from streamnorm.inspect.summary import Track
from streamnorm.validation import Violation

TRACK = Track("text", "", "", 0, 1, None, 1 << 900, 2, 2, "hi", start_ms=5, deltas=1)
HOLD = Hold(block=1, behind=0, deltas=2, chars=9, start=3, stop=5)


def test_document_has_all_of_the_page() -> None:
    report = Report(
        dialect="openai_chat",
        id="c",
        model="m",
        bytes=9,
        frames=3,
        events=4,
        cell_width=2,
        tracks=(TRACK,),
        usage=Usage(1),
        stops=(MessageStop("end_turn", "stop"),),
        outcome=Completed("end_turn", Usage(1)),
        losses={"anthropic": (Loss("refusal", "block", 1, "written as text"),)},
        holds={"anthropic": (HOLD,)},
        notes=(Note("minted_id", "call", 2),),
        timing=Timing(
            first_byte_ms=4,
            first_event_ms=5,
            first_text_ms=None,
            end_ms=6,
            gaps=(Gap(1, 2),),
            tokens_per_s=None,
        ),
        rate=Rate(events_per_s=2.0, bytes_per_s=4.5, chars_per_s=1.0),
        violations=(Violation(3, "no [DONE], expected it last"),),
    )
    written = msgspec.json.decode(msgspec.json.encode(describe_report(report, "a.sse")))
    assert written == {
        "stream": "a.sse",
        "dialect": "openai_chat",
        "framing": "sse",
        "server": None,
        "id": "c",
        "model": "m",
        "bytes": 9,
        "frames": 3,
        "events": 4,
        "usage": {"input_tokens": 1},
        "stops": [{"event": "message_stop", "reason": "end_turn", "raw_reason": "stop"}],
        "outcome": {
            "type": "completed",
            "reason": "end_turn",
            "usage": {"input_tokens": 1},
            "lenient": [],
        },
        "losses": {
            "anthropic": [
                {"feature": "refusal", "where": "block", "count": 1, "detail": "written as text"}
            ]
        },
        "holds": {
            "anthropic": [
                {
                    "block": 1,
                    "behind": 0,
                    "deltas": 2,
                    "chars": 9,
                    "start": 3,
                    "stop": 5,
                    "start_ms": None,
                    "stop_ms": None,
                }
            ]
        },
        "notes": [{"kind": "minted_id", "where": "call", "count": 2}],
        "timing": {
            "first_byte_ms": 4,
            "first_event_ms": 5,
            "first_text_ms": None,
            "end_ms": 6,
            "gaps": [{"ms": 1, "frame": 2}],
            "tokens_per_s": None,
        },
        "rate": {"events_per_s": 2.0, "bytes_per_s": 4.5, "chars_per_s": 1.0},
        "violations": [{"position": 3, "message": "no [DONE], expected it last"}],
        "unchecked": "",
        "state": None,
        "blocks": [
            {
                "kind": "text",
                "name": "",
                "id": "",
                "choice": 0,
                "start": 1,
                "stop": None,
                "chars": 2,
                "bytes": 2,
                "head": "hi",
                "problem": "",
                "citations": 0,
                "signature_chars": None,
                "issuer": None,
                "start_ms": 5,
                "stop_ms": None,
                "deltas": 1,
            }
        ],
    }


def test_failure_has_its_error() -> None:
    report = Report(outcome=Failed(StreamError("upstream", "no", "429")))
    assert describe_report(report, "a")["outcome"] == {
        "type": "failed",
        "error": {"event": "stream_error", "kind": "upstream", "message": "no", "code": "429"},
    }
