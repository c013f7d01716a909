"""Engines for the OpenAI protocol: completions with token ids, and chat."""
