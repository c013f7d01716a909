"""vLLM servers, used as a fleet."""
