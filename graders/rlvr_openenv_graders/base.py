"""What the graders have in common: they need a running subject, and turn problems into a result."""

import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from openenv.validation.graders import Subject
from openenv.validation.manifest import NormalizedManifest
from openenv.validation.report import CheckResult
from openenv.validation.types import CheckStatus, Level, ProviderCapability

from rlvr_openenv_graders.wire import Refused, Served


class NotMeasured(Exception):
    """The check cannot be made of this subject, and why; it is a SKIP."""


class ServedGrader(ABC):
    """One check of a running subject: `problems` returns what is wrong, and what was measured."""

    check_id: ClassVar[str]
    level: ClassVar[Level] = Level.RUNTIME
    requires_capabilities: ClassVar[frozenset[str]] = frozenset()
    requires_provider: ClassVar[frozenset[ProviderCapability]] = frozenset()
    depends_on: ClassVar[tuple[str, ...]] = ("runtime.startup",)
    remediation: ClassVar[str]

    def applies_to(self, manifest: NormalizedManifest) -> bool:
        """Every served environment has it."""
        return True

    @abstractmethod
    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Return what is wrong in sentences, and what was measured. Raises NotMeasured."""

    def run(self, subject: Subject) -> CheckResult:
        """Grade a subject."""
        started = time.monotonic()
        measured: dict[str, Any] = {}
        if subject.running is None:
            status, evidence = CheckStatus.SKIP, ["the subject does not run"]
        else:
            try:
                found, measured = self.problems(Served(subject), subject)
                status = CheckStatus.FAIL if found else CheckStatus.PASS
                evidence = found[:20] or ["holds for what was played"]
            except NotMeasured as reason:
                status, evidence = CheckStatus.SKIP, [str(reason)]
            except Refused as error:
                status, evidence = CheckStatus.FAIL, [str(error)]
        return CheckResult(
            check_id=self.check_id,
            status=status,
            measured=measured,
            evidence=evidence,
            remediation=self.remediation if status is CheckStatus.FAIL else None,
            duration_s=time.monotonic() - started,
        )
