"""Test support for Amazon Bedrock's Converse."""
