"""Engines for the OpenAI protocol: completions with tokens, and chat."""
