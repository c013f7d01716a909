"""Running vLLM servers as a fleet."""
