"""Check that a loss gives each embedding the right gradient in a batch spread over processes."""

from gradlab.scale.audit.auditing import Audit, audit

__all__ = ["Audit", "audit"]
