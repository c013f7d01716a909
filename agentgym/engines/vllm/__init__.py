"""vLLM as an engine, and the code that runs in vLLM's worker processes."""
