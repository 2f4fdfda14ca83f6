"""What each of two processes computes in the test of gathering; apart, so that they start quickly."""

from __future__ import annotations

import torch

from gradlab.integrations.sentence_transformers import loss


def compute_share(rank: int, cases: dict[str, torch.Tensor], folder: str) -> None:
    """Value and gradient of each loss on this process's half of the sentences, into ``folder/rank.pt``."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    found = {}
    for name, rows in cases.items():
        half = rows.shape[1] // 2
        leaf = rows[:, half * rank : half * (rank + 1)].clone().requires_grad_()
        criterion = loss(torch.nn.Identity(), name, gather_across_devices=True)
        value = criterion.compute_loss_from_embeddings(list(leaf))
        value.backward()
        found[name] = {"value": value.detach(), "gradient": leaf.grad}
    torch.save(found, f"{folder}/{rank}.pt")
    torch.distributed.barrier()  # neither leaves while the other still sends
    torch.distributed.destroy_process_group()
