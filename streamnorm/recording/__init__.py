"""Recordings: HTTP exchanges on disk, with the bytes of the response and their timing.

`format` is the file format, `recording` a recording in memory.  `recorder` writes exchanges without
their `secrets`.  `library` selects the recording that answers a request, `matching` compares
requests, `player` plays a body at its recorded times, `faults` change it.  `importing` reads files
of other tools, `scanning` finds secrets in files.
"""

from streamnorm._core.errors import RecordingError, UnrecordedRequest
from streamnorm.recording.format import RecordedRequest, RecordedResponse
from streamnorm.recording.recording import Recording

__all__ = [
    "RecordedRequest",
    "RecordedResponse",
    "Recording",
    "RecordingError",
    "UnrecordedRequest",
]
