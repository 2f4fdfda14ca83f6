"""What blockwise losses do not have."""

from __future__ import annotations

import torch

from gradlab.errors import GradlabError


def refuse_second_derivatives() -> None:
    """To be called in a backward pass.

    Raises:
        GradlabError: if this pass is itself to be differentiated.
    """
    if torch.is_grad_enabled():
        raise GradlabError(
            "a blockwise loss has first derivatives only (create_graph=True was asked for); "
            "use the loss itself for higher ones"
        )
