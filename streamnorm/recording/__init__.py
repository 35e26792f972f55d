"""Exchanges on disk: what was asked, the bytes that came back, and when they did.

`format` says what the files hold, `file` loads and saves them.  `secrets` and `writer` record;
`library` finds the recording that answers a request, `matching` compares the two, `playing`
gives the bytes at their time, `faults` spoils them.
"""

from streamnorm.recording.format import Companion, RecordedRequest, RecordedResponse
from streamnorm.recording.recording import Recording, load_companion

__all__ = ["Companion", "RecordedRequest", "RecordedResponse", "Recording", "load_companion"]
