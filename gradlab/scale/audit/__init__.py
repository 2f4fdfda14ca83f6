"""Check that a loss gives each embedding the right gradient in a batch spread over processes."""

from gradlab.scale.audit.auditing import Audit, audit
from gradlab.scale.audit.faults import Fault

__all__ = ["Audit", "Fault", "audit"]
