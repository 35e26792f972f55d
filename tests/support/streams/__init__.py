"""Streams of any dialect: generated, recorded, damaged and compared."""
