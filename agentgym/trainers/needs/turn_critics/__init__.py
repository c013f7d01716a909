"""Turn-level critics: small heads on hidden states, trained alongside the policy."""
