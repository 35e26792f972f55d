"""Streams and bodies of Amazon Bedrock's Converse."""
