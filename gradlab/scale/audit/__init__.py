"""Check that a loss gives each embedding the right gradient when a batch is spread over several
processes.
"""

from gradlab.scale.audit.auditing import Audit, audit
from gradlab.scale.audit.faults import Fault

__all__ = ["Audit", "Fault", "audit"]
