"""One exchange on disk: the bytes of a stream and what is known of them."""

from streamnorm.recording.file import Companion, Recording, load_companion

__all__ = ["Companion", "Recording", "load_companion"]
