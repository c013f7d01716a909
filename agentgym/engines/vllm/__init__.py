"""vLLM as an engine, and what runs in its workers."""
