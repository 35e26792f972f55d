"""Faults by their names."""

from __future__ import annotations

import pytest

from streamnorm.cli.faulty import _MAKERS, read_fault
from streamnorm.recording import faults


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("bom", faults.bom()),
        (" crlf() ", faults.crlf()),
        ("cut(event=-1)", faults.cut(event=-1)),
        ("stall(byte=9, s=2.5)", faults.stall(byte=9, s=2.5)),
        ("http(529, times=None)", faults.http(529, times=None)),
        ("content_type('text/html')", faults.content_type("text/html")),
        ("garbage(event=0, data=b'\\xff')", faults.garbage(event=0, data=b"\xff")),
    ],
)
def test_fault_is_the_one_that_is_spelt(text: str, fault: faults.Fault) -> None:
    assert read_fault(text) == fault


@pytest.mark.parametrize("fault", [faults.cut(byte=3), faults.drop_terminal(), faults.http(404)])
def test_what_a_fault_calls_itself_is_the_fault(fault: faults.Fault) -> None:
    assert read_fault(str(fault)) == fault


def test_every_fault_has_its_name_here() -> None:
    assert set(_MAKERS) == {name for name in faults.__all__ if name.islower()} - {"every"}
