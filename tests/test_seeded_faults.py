"""The faults of `tests/manual/faults.py` fit the code that they are planted in."""

import os
from pathlib import Path
from unittest import mock

import pytest

import gradlab

with mock.patch.dict(os.environ):  # it asks for one thread
    from tests.manual.faults import FAULTS

PACKAGE = Path(gradlab.__file__).parent


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.description)
def test_the_text_that_a_fault_replaces_occurs_once(fault):
    assert (PACKAGE / fault.file).read_text(encoding="utf-8").count(fault.old) == 1
    assert all((Path(__file__).parent / name).exists() for name in fault.tests.split())
