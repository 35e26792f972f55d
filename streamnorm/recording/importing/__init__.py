"""Import of recordings from the files of other tools, and export to HAR.

`import_file` reads cassettes of vcrpy and cassetter and HAR files; `export_har` writes HAR.
`archives` reads the formats, `entries` reads YAML within bounds and makes recordings of
exchanges, `files` detects the format of a file and saves its recordings.
"""

from streamnorm.recording.importing.archives import export_har, import_file

__all__ = ["export_har", "import_file"]
