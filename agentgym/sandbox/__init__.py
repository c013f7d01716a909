"""Sandboxes for model-written code: one protocol, several backends."""

from agentgym.sandbox.protocol import Kernel, Limits, Result, Sandbox, SandboxFault, sandbox

__all__ = ["Kernel", "Limits", "Result", "Sandbox", "SandboxFault", "sandbox"]
