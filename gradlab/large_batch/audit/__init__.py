"""Whether a loss gives each embedding the right gradient when a batch is spread over several processes."""

from gradlab.large_batch.audit.auditing import Audit, audit
from gradlab.large_batch.audit.faults import Fault

__all__ = ["Audit", "Fault", "audit"]
