"""Critics of whole turns: small heads on hidden states, trained beside the policy on what was played."""
