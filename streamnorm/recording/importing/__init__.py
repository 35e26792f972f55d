"""Import of recordings from the files of other tools, and export to HAR.

`import_file` reads cassettes of vcrpy and cassetter and HAR files; `export_har` writes HAR.
`cassettes` and `har` are the formats, `entries` makes recordings of their exchanges, `yaml_reader`
reads YAML within bounds.
"""

from streamnorm.recording.importing.files import import_file
from streamnorm.recording.importing.har import export_har

__all__ = ["export_har", "import_file"]
