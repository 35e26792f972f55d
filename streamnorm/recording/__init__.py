"""Recordings: HTTP exchanges on disk, with the bytes of the response and their timing.

`format` is the file format, `recording` one recording in memory.  `recorder` writes exchanges
without their `secrets`.  `library` selects the recording that answers a request, `matching`
compares the two, `player` plays the body at its recorded times, `faults` change it.
"""

from streamnorm.recording.format import Companion, RecordedRequest, RecordedResponse
from streamnorm.recording.recording import Recording, load_companion

__all__ = ["Companion", "RecordedRequest", "RecordedResponse", "Recording", "load_companion"]
