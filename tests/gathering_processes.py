"""What each of two processes computes in the test of gathering; apart, for a quick start."""

from __future__ import annotations

import torch

from gradlab.integrations.sentence_transformers import loss


class Lookup(torch.nn.Module):
    """A model of one layer, whose sentences are rows of a table by their token ids."""

    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.table = table
        self.layer = torch.nn.Linear(table.shape[1], 4, dtype=table.dtype)
        torch.nn.init.eye_(self.layer.weight)

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"sentence_embedding": self.layer(self.table[features["input_ids"][:, 0]])}


def cached(
    table: torch.Tensor, columns: list[torch.Tensor], **options: object
) -> tuple[Lookup, int]:
    """A model with one batch's gradient, cached in chunks of 3 or not, and its all-reduces."""
    torch.manual_seed(0)
    model = whole = Lookup(table)
    reduced = [0]
    if torch.distributed.is_initialized():
        whole = torch.nn.parallel.DistributedDataParallel(model)

        def count(state, bucket):
            reduced[0] += 1
            work = torch.distributed.all_reduce(bucket.buffer(), async_op=True).get_future()
            return work.then(lambda future: future.value()[0] / torch.distributed.get_world_size())

        whole.register_comm_hook(None, count)
    features = [
        {"input_ids": ids[:, None], "attention_mask": torch.ones_like(ids)[:, None]}
        for ids in columns
    ]
    (0.5 * loss(whole, "infonce", **options)(features)).backward()
    return model, reduced[0]


def compute_share(rank: int, cases: dict[str, torch.Tensor], folder: str) -> None:
    """Each loss's value and gradient on this process's half of sentences, in ``folder/rank.pt``."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    outcomes = {}
    for name, rows in cases.items():
        half = rows.shape[1] // 2
        leaf = rows[:, half * rank : half * (rank + 1)].clone().requires_grad_()
        spec, own, _ = name.partition(" own")
        spec = spec.removesuffix(" ring")
        criterion = loss(
            torch.nn.Identity(),
            spec,
            gather_across_devices=True,
            blockwise=name.endswith(" ring"),
            hard_negatives="own" if own else "shared",
        )
        labels = torch.arange(half * rank, half * (rank + 1))
        value = criterion.compute_loss_from_embeddings(list(leaf), labels)
        value.backward()
        outcomes[name] = {"value": value.detach(), "gradient": leaf.grad}
    table = cases["infonce"].reshape(-1, 6)
    local_ids = [
        torch.arange(8 * column + 4 * rank, 8 * column + 4 * rank + 4) for column in range(3)
    ]
    for name, blockwise in (("cached", False), ("cached ring", True)):
        model, reduced = cached(
            table, local_ids, chunk_size=3, gather_across_devices=True, blockwise=blockwise
        )
        outcomes[name] = {"gradient": model.layer.weight.grad, "reduced": reduced}
    torch.save(outcomes, f"{folder}/{rank}.pt")
    torch.distributed.barrier()  # neither leaves while the other still sends
    torch.distributed.destroy_process_group()
