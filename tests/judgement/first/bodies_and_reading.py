"""Sound set-ups: a recurrent body, and a body that reads before it is tuned."""

from __future__ import annotations

import torch

from tests.judgement.case import sound
from tests.judgement.first.bodies import encoder
from tests.judgement.first.everyday_subjects import (
    ADDRESSES,
)
from tests.judgement.first.expert_subjects import (
    LAWS,
)
from tests.judgement.stage import Stage
from tests.judgement.truth import learns
from tests.sentence_training import losses, modules

RANKING = losses.MultipleNegativesRankingLoss


@sound("recurrent body, word vectors, symmetric loss")
def recurrent_body_for_addresses(stage: Stage) -> None:
    """A two-way recurrent network over word vectors matches addresses in other orders."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

    words = sorted({word for text in ADDRESSES.words() for word in text.split()})
    torch.manual_seed(4)
    vectors = modules.WordEmbeddings(
        WhitespaceTokenizer(words, stop_words=[]), 0.3 * torch.randn(len(words), 32).numpy(),
        update_embeddings=True,
    )  # fmt: skip
    network = modules.LSTM(32, hidden_dim=24, num_layers=1, bidirectional=True)
    model = SentenceTransformer(modules=[vectors, network, modules.Pooling(48)], device="cpu")
    trainer = stage.trainer(
        losses.MultipleNegativesSymmetricRankingLoss, ADDRESSES.pairs(480), model, max_steps=150,
        learning_rate=5e-3, per_device_train_batch_size=32,
    )  # fmt: skip
    learns(stage, trainer, ADDRESSES.sought(60), least=0.1)


@sound("words masked and restored first, then pairs")
def articles_read_before_the_search(stage: Stage) -> None:
    """The body first restores masked words of the articles, then learns questions and articles."""
    from transformers import BertForMaskedLM, DataCollatorForLanguageModeling

    model, articles = encoder(stage, LAWS.words(), spread=0.05), LAWS.pairs(256)
    reader = BertForMaskedLM(model[0].auto_model.config)
    reader.bert = model[0].auto_model
    reader.tie_weights()
    mask = DataCollatorForLanguageModeling(model.tokenizer, mlm_probability=0.2)
    optimizer = torch.optim.AdamW(reader.train().parameters(), lr=2e-3)
    for step in range(60):
        texts = [*articles["anchor"], *articles["positive"]][step % 16 :: 16]
        batch = mask([dict(input_ids=ids) for ids in model.tokenizer(texts)["input_ids"]])
        optimizer.zero_grad()
        reader(**batch).loss.backward()
        optimizer.step()
    trainer = stage.trainer(
        RANKING, articles, model.eval(), max_steps=200, learning_rate=2e-3,
        per_device_train_batch_size=16,
    )  # fmt: skip
    learns(stage, trainer, LAWS.sought(40), least=0.1)
