"""Engines behind the OpenAI protocol: completions with tokens, and chat."""
