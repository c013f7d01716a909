"""vLLM servers that run already, as a fleet."""
