"""Recordings out of the files of other tools, and into them.

`import_file` reads the cassettes of vcrpy and cassetter and HAR files; `export_har` writes
the latter.  `entries` says what an exchange of a foreign file comes to, `cassettes` and `har`
know the formats, `trees` reads YAML within bounds.
"""

from streamnorm.recording.importing.files import import_file
from streamnorm.recording.importing.har import export_har

__all__ = ["export_har", "import_file"]
