"""Trainers of other frameworks: presets of views, loops with accumulated gradients, Lightning."""

from __future__ import annotations

import pytest
import torch

import gradlab
from gradlab import GradlabError
from tests.test_watch import hugging_face_trainer

DIM, COUNT, PASSAGES = 8, 16, 3


class Retriever(torch.nn.Module):
    """A model as in Tevatron and FlagEmbedding: N queries, and N·G passages query by query."""

    def __init__(self, shows: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = torch.nn.Sequential(torch.nn.Linear(6, DIM), torch.nn.Dropout(0.1))
        self.shows, self.batches = shows, []

    def encode(self, rows):
        return torch.nn.functional.normalize(self.encoder(rows))

    def forward(self, x):
        queries = self.encode(x)
        copies = x.repeat_interleave(PASSAGES, 0)
        noise = torch.tensor([0.1, 2.0, 3.0]).repeat(len(x)).unsqueeze(1)
        passages = self.encode(copies + noise)
        self.batches.append((queries.detach().double(), passages.detach().double()))
        targets = PASSAGES * torch.arange(len(x))
        loss = torch.nn.functional.cross_entropy(queries @ passages.T / 0.05, targets)
        return {"loss": loss} | ({"q_reps": queries, "p_reps": passages} if self.shows else {})


@pytest.mark.parametrize("views", ["tevatron", "flagembedding"])
def test_presets_find_queries_positives_and_negatives(tmp_path, views):
    models = []
    for watched in (False, True):
        models.append(Retriever(shows=views == "tevatron"))
        trainer = hugging_face_trainer(tmp_path / str(watched), models[-1])
        if watched:
            watch = gradlab.watch(trainer, views=views, loss="infonce(temperature=0.05)", every=1)
        trainer.train()
    plain, watched = models
    assert "encode" not in vars(watched)
    for first, second in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(first, second)
    expected = []
    for queries, passages in watched.batches:
        negatives = passages[torch.arange(len(passages)) % PASSAGES != 0]
        components = gradlab.components(
            "infonce(temperature=0.05)", queries, passages[::PASSAGES], negatives, normalize=True
        )
        expected.append(float(components.gradient_dissipation.mean()))
    recorded = watch.to_frame()["gradient_dissipation"].dropna().tolist()
    assert recorded == pytest.approx(expected, rel=1e-6)
    assert "alone" not in watch.summary()  # its value is that of training


def test_a_preset_for_another_model_ends_the_recording_and_not_the_run(tmp_path):
    trainer = hugging_face_trainer(tmp_path)
    gradlab.watch(trainer, views="tevatron", loss="infonce", every=1)
    with pytest.warns(gradlab.monitor.watch.TrainingWarning, match="no field 'q_reps'"):
        trainer.train()
    assert trainer.state.global_step == 4


def test_passages_that_are_no_groups_are_refused():
    from gradlab.monitor.captured_views import PRESETS

    output = {"q_reps": torch.ones(4, 2), "p_reps": torch.ones(6, 2)}
    with pytest.raises(GradlabError, match="6 passages are no groups of 4 queries"):
        PRESETS["tevatron"].views([output])


def test_a_loop_says_which_step_its_batches_belong_to(tmp_path):
    criterion = gradlab.watch(gradlab.get_loss("infonce"), output=tmp_path, every=2)
    for step in range(6):
        criterion.watch.step = step
        for _ in range(3):  # batches of one step
            criterion(*torch.randn(2, 16, 8, requires_grad=True), normalize=True)
    assert criterion.to_frame().index.tolist() == [0, 2, 4]


def test_only_the_first_process_of_a_loop_records(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    criterion = gradlab.watch(gradlab.get_loss("infonce"), output=tmp_path / "run", every=1)
    criterion.watch.start(0, 3)
    criterion(*torch.randn(2, 16, 8, requires_grad=True), normalize=True)
    criterion.finish()
    assert not (tmp_path / "run").exists()


def test_lightning(tmp_path):
    import lightning

    from gradlab.integrations.lightning import LightningWatch

    criterion = gradlab.watch(
        gradlab.get_loss("infonce"), views=lambda a, b: (a, b), output=tmp_path / "run", every=2
    )

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(6, DIM)

        def training_step(self, batch, index):
            first = torch.nn.functional.normalize(self.layer(batch))
            second = torch.nn.functional.normalize(self.layer(batch + 0.1))
            return criterion(first, second)

        def validation_step(self, batch, index):
            self.log("val_score", self.layer(batch).mean())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    rows = torch.randn(64, 6)
    loader = torch.utils.data.DataLoader(rows, batch_size=8)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
        accumulate_grad_batches=2, callbacks=[LightningWatch(criterion)],
    )  # fmt: skip
    trainer.fit(Module(), loader, loader)
    watch = criterion.watch
    assert watch.history.series("diagnostics", "negative_cosine")[0] == [0, 2]
    assert watch.history.names("evaluation") == ["eval_val_score"]
    assert watch.history.total_steps == 4
    assert watch.recording.status == "finished"
    with pytest.raises(GradlabError, match="LightningWatch takes"):
        LightningWatch(torch.nn.MSELoss())
