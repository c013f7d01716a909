"""agentgym's checks as graders of OpenEnv's validation (RFC 008), found through the group `openenv.validation.graders`."""
