"""Whether a loss gives each embedding the right gradient when a batch is spread over several processes."""

from gradlab.large_batch.audit.faults import Fault
from gradlab.large_batch.audit.run import Audit, audit

__all__ = ["Audit", "Fault", "audit"]
