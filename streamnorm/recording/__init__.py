"""One exchange on disk: the bytes of a stream and what is known of them."""

from streamnorm.recording.file import Recording

__all__ = ["Recording"]
