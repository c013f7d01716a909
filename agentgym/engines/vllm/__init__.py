"""vLLM as an engine, and the code in its workers."""
