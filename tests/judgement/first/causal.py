"""Decoders as encoders: the wrong end of a row, the wrong layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.hand_loops import batches, compare, fit, infonce
from tests.judgement.stage import FILLERS, Stage, facts, passage, question
from tests.judgement.truth import reciprocal_rank
from tests.tiny_models import make_bert

FIRST = (
    r"first token", r"\bcls\b", r"pool", r"causal", r"decoder", r"last.?token",
    r"(all|every) (texts?|embeddings?|cosines?).{0,60}(same|alike|equal|one|identical|close)",
    r"(embeddings?|texts?|vectors?).{0,60}(identical|the same|equal|coincide|collapse)",
    r"collapse",
    r"(do|does) not depend", r"(no|zero|without) gradient", r"gradient.{0,60}(zero|\b0\b|nothing)",
)  # fmt: skip
END = (
    r"pad", r"last.?token", r"(left|right) (side|padd)",
    r"batch.{0,60}(depend|chang|differ|length)",
    r"depend.{0,60}batch", r"pool", r"mask", r"(alone|by itself|other texts)", r"lengths?",
    r"(loss|gradient).{0,60}(noise|noisy|not fall|hardly)",
)  # fmt: skip


def _decoder(stage: Stage, pooling: str = "lasttoken", side: str = "right") -> Any:
    """A fresh causal decoder; its texts begin with [CLS] and end with [SEP]."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import AutoTokenizer, LlamaConfig, LlamaModel

    folder = stage.folder / f"decoder-{side}"
    tokenizer = AutoTokenizer.from_pretrained(str(make_bert(stage.folder / "words")))
    tokenizer.padding_side = side
    tokenizer.save_pretrained(folder)
    torch.manual_seed(7)
    LlamaModel(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
            pad_token_id=0, bos_token_id=2, eos_token_id=3,
        )
    ).save_pretrained(folder)  # fmt: skip
    return SentenceTransformer(
        modules=[Transformer(str(folder), max_seq_length=64), Pooling(32, pooling_mode=pooling)],
        device="cpu",
    )


def _uneven(count: int, seed: int) -> dict[str, list[str]]:
    """Questions and passages; one in four of each has forty words before its own."""
    statements, long = facts(count, seed), " ".join(FILLERS[:24])
    columns = {"anchor": map(question, statements), "positive": map(passage, statements)}
    return {
        name: [text if at % 4 else f"{long} {text}" for at, text in enumerate(texts)]
        for name, texts in columns.items()
    }


Reading = Callable[[Any, Sequence[str]], torch.Tensor]


def _outputs(model: Any, texts: Sequence[str]) -> tuple[Any, torch.Tensor]:
    tokens = model.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
    tokens.pop("token_type_ids", None)
    outputs = model[0].auto_model(**tokens, output_hidden_states=True, use_cache=False)
    return outputs, tokens["attention_mask"]


def _at_the_end(model: Any, texts: Sequence[str]) -> torch.Tensor:
    return _outputs(model, texts)[0].last_hidden_state[:, -1]


def _below_the_first_layer(model: Any, texts: Sequence[str]) -> torch.Tensor:
    return _outputs(model, texts)[0].hidden_states[0][:, -1]


def _read(stage: Stage, faulty_way: Reading, mended_way: Reading) -> None:
    """Compare loops that read the embedding from the hidden states in two ways."""
    ways = iter((faulty_way, mended_way))

    def make() -> Any:
        model = _decoder(stage, side="left")
        model.way = next(ways)
        return model

    def training(model: Any, watch: Callable[[Any], Any], is_faulty: bool) -> None:
        descent = torch.optim.AdamW(model.parameters(), lr=3e-3)
        rows = batches(_uneven(160, 0), 50)
        fit(model, watch(infonce), rows=rows, encode=model.way, optimizer=descent)

    def score(model: Any) -> float:
        model.eval()
        with torch.no_grad():
            first, second = (
                torch.cat([model.way(model, texts[at : at + 20]) for at in range(0, 100, 20)])
                for texts in _uneven(100, 11).values()
            )
        return reciprocal_rank(first.numpy(), second.numpy())

    compare(stage, training, score, model=make, steps=50, share=None)


def _at_the_end_of_all(model: Any, texts: Sequence[str]) -> torch.Tensor:
    model.tokenizer.padding_side = "right"
    tokens = model.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
    return model[0].auto_model(tokens["input_ids"], use_cache=False).last_hidden_state[:, -1]


@faulty(
    "last position of right-padded rows",
    "The loop pads on the right, hands over no mask and reads the last position: of short texts "
    "that is the end of a long row of padding.",
    END,
    tools=(REPORT,),
)
def last_position_of_right_padding(stage: Stage) -> None:
    _read(stage, _at_the_end_of_all, _at_the_end)


@faulty(
    "hidden states of index 0 for the last token",
    "The loop reads hidden_states[0], the word vectors below the first layer: that of the last "
    "token is the end token's, the same for each text.",
    FIRST,
    tools=(REPORT,),
    never=(r"(larger|bigger|raise the) batch",),
)
def word_vector_of_the_end_token(stage: Stage) -> None:
    _read(stage, _below_the_first_layer, _at_the_end)
