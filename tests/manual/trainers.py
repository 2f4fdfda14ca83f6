"""Train a tiny encoder in each framework that is installed, watched, and print what was recorded.

    python tests/manual/trainers.py [NAME ...] [--processes 2]

With ``--processes``, Lightning, Fabric and accelerate train with DistributedDataParallel on a CPU
(gloo), in processes that torchrun starts.
The package of each framework is the real one; what is absent is named. Weights with and without
the watch are compared.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import gradlab  # noqa: E402
from gradlab.monitor.run_reader import read_recording  # noqa: E402
from tests.sentence_training import columns_of  # noqa: E402
from tests.tiny_models import make_bert  # noqa: E402

STEPS = 8


def encoder(place: Path) -> torch.nn.Module:
    """A tiny BERT whose forward pass embeds a batch of tokens by their mean."""
    from transformers import AutoModel

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            # Processes wait for the gradient of every parameter; the pooling layer has none.
            self.bert = AutoModel.from_pretrained(place / "bert", add_pooling_layer=False)

        def forward(self, tokens):
            hidden = self.bert(**tokens).last_hidden_state
            mask = tokens["attention_mask"].unsqueeze(-1)
            return (hidden * mask).sum(1) / mask.sum(1)

    return Encoder()


def batches(place: Path) -> torch.utils.data.DataLoader:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(place / "bert")
    table = columns_of(16 * STEPS)
    pairs = list(zip(table["anchor"], table["positive"], strict=True))

    def collate(rows):
        return [
            dict(tokenizer(list(texts), padding=True, return_tensors="pt"))
            for texts in zip(*rows, strict=True)
        ]

    return torch.utils.data.DataLoader(pairs, batch_size=16, collate_fn=collate)


def criterion_of(folder: Path, watched: bool):
    loss = gradlab.blockwise("infonce(temperature=0.05)")
    return gradlab.watch(loss, output=folder, every=1) if watched else loss


def parallel() -> dict:
    """What Lightning and Fabric are told of the processes that torchrun has started."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    return {"devices": count, "strategy": "ddp" if count > 1 else "auto"}


def lightning(place: Path, watched: bool):
    import lightning as package

    from gradlab.integrations.lightning import LightningWatch

    criterion = criterion_of(place / "lightning", watched)

    class Module(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.encoder = encoder(place)

        def training_step(self, batch, index):
            loss = criterion(*map(self.encoder, batch), normalize=True)
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch, index):
            first, second = (torch.nn.functional.normalize(self.encoder(b)) for b in batch)
            self.log("val_margin", (first * second).sum(1).mean(), batch_size=len(first))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.05)

    package.seed_everything(7, verbose=False)
    module = Module()
    logger = package.pytorch.loggers.CSVLogger(place / "logs")
    trainer = package.Trainer(
        max_epochs=1, accelerator="cpu", logger=logger, **parallel(), enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=place,
        log_every_n_steps=1, callbacks=[LightningWatch(criterion)] if watched else [],
    )  # fmt: skip
    trainer.fit(module, batches(place), batches(place))
    if watched and trainer.is_global_zero:
        text = max((place / "logs").rglob("metrics.csv")).read_text()
        assert "train/gradlab/hardest_share" in text
        assert criterion.watch.history.names("evaluation") == ["eval_val_margin"]
    return module.encoder, criterion.watch if watched else None


def loop(place: Path, folder: str, watched: bool, prepare, backward):
    torch.manual_seed(7)
    model = encoder(place)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    criterion = criterion_of(place / folder, watched)
    model, optimiser, loader = prepare(model, optimiser, batches(place))
    model.train()
    for batch in loader:
        loss = criterion(*map(model, batch), normalize=True)
        backward(loss)
        optimiser.step()
        optimiser.zero_grad()
    if watched:
        criterion.finish()
    return model, criterion.watch if watched else None


def fabric(place: Path, watched: bool):
    from lightning.fabric import Fabric

    instance = Fabric(accelerator="cpu", **parallel())
    instance.launch()

    def prepare(model, optimiser, loader):
        return *instance.setup(model, optimiser), instance.setup_dataloaders(loader)

    return loop(place, "fabric", watched, prepare, instance.backward)


def accelerate(place: Path, watched: bool):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    return loop(place, "accelerate", watched, accelerator.prepare, accelerator.backward)


def setfit(place: Path, watched: bool):
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    texts = columns_of(24)["anchor"]
    data = Dataset.from_dict({"text": texts, "label": [i % 2 for i in range(24)]})
    torch.manual_seed(7)
    model = SetFitModel.from_pretrained(str(place / "bert"), device="cpu")
    arguments = TrainingArguments(
        output_dir=str(place / f"setfit-{watched}"), max_steps=STEPS, batch_size=8, num_epochs=1,
        report_to="none", seed=7, body_learning_rate=1e-3,
    )  # fmt: skip
    callback = gradlab.WatchCallback(every=1)
    trainer = Trainer(
        model=model, args=arguments, train_dataset=data, callbacks=[callback] if watched else []
    )
    trainer.train()
    return model.model_body, callback.watch


def pylate(place: Path, watched: bool):
    from datasets import Dataset
    from pylate import losses, models, utils
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    torch.manual_seed(7)
    model = models.ColBERT(str(place / "bert"), device="cpu", query_length=16, document_length=32)
    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            str(place / f"pylate-{watched}"), max_steps=STEPS, use_cpu=True, report_to="none",
            per_device_train_batch_size=8, save_strategy="no", seed=7,
        ),
        train_dataset=Dataset.from_dict(columns_of(64, 3)),
        loss=losses.Contrastive(model),
        data_collator=utils.ColBERTCollator(model.tokenize),
    )  # fmt: skip
    watch = gradlab.watch(trainer, every=1) if watched else None
    trainer.train()
    return model, watch


def arguments_of(folder: Path, **further):
    from transformers import TrainingArguments

    return TrainingArguments(
        str(folder), max_steps=STEPS, use_cpu=True, report_to="none", save_strategy="no", seed=7,
        per_device_train_batch_size=8, remove_unused_columns=False, optim="sgd",
        learning_rate=0.05, lr_scheduler_type="constant", disable_tqdm=True, **further,
    )  # fmt: skip


def groups(place: Path, first: str, second: str):
    """A data set of queries with two passages each, and its collator."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(place / "bert")
    table = columns_of(8 * STEPS, 3)
    rows = [{"query": q, "passages": [p, n]} for q, p, n in zip(*table.values(), strict=True)]

    def collate(batch):
        texts = [row["query"] for row in batch], [p for row in batch for p in row["passages"]]
        tokens = [dict(tokenizer(t, padding=True, return_tensors="pt")) for t in texts]
        return dict(zip((first, second), tokens, strict=True))

    return rows, collate


def flagembedding(place: Path, watched: bool):
    from FlagEmbedding.finetune.embedder.encoder_only.base.modeling import (
        BiEncoderOnlyEmbedderModel,
    )
    from FlagEmbedding.finetune.embedder.encoder_only.base.trainer import (
        EncoderOnlyEmbedderTrainer,
    )
    from transformers import AutoModel

    torch.manual_seed(7)
    model = BiEncoderOnlyEmbedderModel(
        AutoModel.from_pretrained(place / "bert"), temperature=0.05, normalize_embeddings=True
    )
    rows, collate = groups(place, "queries", "passages")
    trainer = EncoderOnlyEmbedderTrainer(
        model=model, args=arguments_of(place / f"flag-{watched}"), train_dataset=rows,
        data_collator=collate,
    )  # fmt: skip
    watch = None
    if watched:
        watch = gradlab.watch(
            trainer, views="flagembedding", loss="infonce(temperature=0.05)", every=1
        )
    trainer.train()
    return model, watch


def tevatron(place: Path, watched: bool):
    from tevatron.modeling import DenseModel
    from transformers import AutoModel, Trainer

    torch.manual_seed(7)
    encoder_model = AutoModel.from_pretrained(place / "bert")
    model = DenseModel(
        encoder_model, encoder_model, model_args=SimpleNamespace(untie_encoder=False),
        data_args=SimpleNamespace(train_n_passages=2),
        train_args=SimpleNamespace(negatives_x_device=False, per_device_train_batch_size=8),
    )  # fmt: skip
    rows, collate = groups(place, "query", "passage")
    trainer = Trainer(
        model=model, args=arguments_of(place / f"tevatron-{watched}"), train_dataset=rows,
        data_collator=collate,
    )  # fmt: skip
    watch = None
    if watched:
        watch = gradlab.watch(trainer, views="tevatron", loss="infonce(temperature=1)", every=1)
    trainer.train()
    return model, watch


FRAMEWORKS = {
    "lightning": lightning, "fabric": fabric, "accelerate": accelerate, "setfit": setfit,
    "pylate": pylate, "flagembedding": flagembedding, "tevatron": tevatron,
}  # fmt: skip
PACKAGES = {"fabric": "lightning"}
PARALLEL = ("lightning", "fabric", "accelerate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FRAMEWORKS))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--worker", nargs=2, metavar=("PLACE", "WATCHED"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    warnings.simplefilter("ignore")
    if chosen.worker:
        place, watched = Path(chosen.worker[0]), chosen.worker[1] == "True"
        train_in_processes(chosen.names[0], place, watched)
        return
    place = Path(tempfile.mkdtemp(prefix="trainers-"))
    make_bert(place / "bert")
    for name in chosen.names or (PARALLEL if chosen.processes > 1 else FRAMEWORKS):
        try:
            version = importlib.metadata.version(PACKAGES.get(name, name))
        except importlib.metadata.PackageNotFoundError:
            print(f"## {name}: not installed", flush=True)
            continue
        try:
            if chosen.processes > 1:
                compare_processes(name, version, place, chosen.processes)
            else:
                compare(name, version, place)
        except Exception as error:
            print(f"## {name} {version}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process {peak:.0f} MiB")


def compare(name: str, version: str, place: Path) -> None:
    """Train with and without a watch, and print what it recorded."""
    ends, seconds = [], []
    for watched in (False, True):
        began = time.process_time()
        model, watch = FRAMEWORKS[name](place, watched)
        seconds.append(time.process_time() - began)
        ends.append({key: w.clone() for key, w in model.state_dict().items()})
    print_records(name, version, watch, ends)
    print(f"   {watch.seconds:.3f} s in {seconds[1]:.2f} s; unwatched {seconds[0]:.2f} s")


def print_records(name: str, version: str, watch, ends: list[dict]) -> None:
    same = all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0])
    frame = watch.to_frame()
    names = watch.history.names("diagnostics")
    counts = {name: int(frame[name].notna().sum()) for name in names}
    print(f"## {name} {version}: {len(frame)} rows {counts}; same weights: {same}")
    print(f"   status {watch.recording.status} {watch.recording.manifest['why']}")
    print("  ", *watch.summary().splitlines()[1:3], flush=True)


def compare_processes(name: str, version: str, place: Path, count: int) -> None:
    """The same with torchrun; the run is read from its folder, as `gradlab report` does."""
    for watched in (False, True):
        subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}",
             "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", __file__, name,
             "--worker", place, str(watched)],
            check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    states = [
        [torch.load(place / f"{name}-{watched}-{rank}.pt") for rank in range(count)]
        for watched in (False, True)
    ]
    for rank in range(1, count):
        assert all(torch.equal(states[1][0][k], states[1][rank][k]) for k in states[1][0])
    same = all(torch.equal(states[0][0][k], states[1][0][k]) for k in states[0][0])
    run = read_recording(place / name)
    names = run.history.names("diagnostics")
    steps = run.history.series("diagnostics", names[0])[0]
    print(f"## {name} {version}, {count} processes: {len(names)} numbers at steps {steps}; "
          f"same weights: {same}; status {run.status}", flush=True)  # fmt: skip


def train_in_processes(name: str, place: Path, watched: bool) -> None:
    """What each process does; its weights are kept."""
    model, _ = FRAMEWORKS[name](place, watched)
    rank = os.environ["RANK"]
    torch.save(model.state_dict(), place / f"{name}-{watched}-{rank}.pt")


if __name__ == "__main__":
    main()
