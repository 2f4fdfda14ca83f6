"""Faults of precision, adapters, and decoders as encoders."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from tests.judgement.case import REPORT, faulty
from tests.judgement.first.loop_materials import (
    FAST,
    MORE_OF_THE_SAME,
    RATE,
    STILL,
    Batches,
    decoder,
    embed,
    infonce,
    looped,
    looped_unwatched,
    ordinary_loop,
    plain_update,
    pretrained,
    ranking,
    uneven,
)
from tests.judgement.stage import Stage, pairs
from tests.judgement.truth import (
    alike,
    among_alike,
    falls_short,
    reciprocal_rank,
    retrieval,
    suffers,
)

NOT_A_NUMBER = [r"\bnan\b|\binf(inite|inity)?\b|not (a number|finite)|overflow|non-finite"]


@faulty(
    "exponentials that overflow",
    "The loss takes exp(cosine / 0.01) without subtracting the largest: it is infinite, and the "
    "loss is not a number.",
    NOT_A_NUMBER,
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def exponential_of_a_hundred(stage: Stage) -> None:
    def by_hand(anchors: Tensor, positives: Tensor) -> Tensor:
        cosines = functional.normalize(anchors) @ functional.normalize(positives).T
        weights = torch.exp(cosines / 0.01)
        return -torch.log(weights.diagonal() / weights.sum(1)).mean()

    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scores = looped(stage, model, by_hand, plain_update(model, Batches(model), optimizer))
    falls_short(stage, scores, ordinary_loop(stage))


@faulty(
    "root of a distance of 0",
    "The loss takes the root of all squared distances of a batch, also of each row from itself: "
    "the gradient of the root at 0 is infinite, and all weights become NaN.",
    [*NOT_A_NUMBER, r"sqrt|root"],
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def root_on_the_diagonal(stage: Stage) -> None:

    def hinge(anchors: Tensor, positives: Tensor) -> Tensor:
        rows = functional.normalize(torch.cat([anchors, positives]))
        squares = (rows[:, None] - rows[None]).square().sum(2)
        distances = squares.sqrt()
        count = len(anchors)
        right = distances.diagonal(count)
        return functional.relu(right[:, None] - distances[:count, count:] + 0.3).mean()

    model = stage.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scores = looped(stage, model, hinge, plain_update(model, Batches(model), optimizer))
    falls_short(stage, scores, ordinary_loop(stage))


@faulty(
    "gradients clipped before they are unscaled",
    "The loop clips the gradients while the scaler's factor of 65536 is still in them: after it "
    "is taken out, they are tiny.",
    [r"clip|scaler|unscal|loss.?scal", STILL, r"gradient.{0,80}(tiny|small|vanish|zero)"],
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def clipped_under_the_scaler(stage: Stage) -> None:

    def loop(unscaled: bool) -> tuple[float, float]:
        model = stage.model()
        draw, scaler = Batches(model), torch.amp.GradScaler("cpu")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

        def update(criterion: Any, step: int) -> None:
            loss = criterion(*(embed(model, column) for column in draw()))
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            if unscaled:
                scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()

        if unscaled:
            return looped_unwatched(model, infonce, update)
        return looped(stage, model, infonce, update)

    falls_short(stage, loop(unscaled=False), loop(unscaled=True))


@faulty(
    "small updates of weights in bfloat16",
    "The model was loaded in bfloat16 and is trained as it is, at a small rate: most updates are "
    "less than half of the distance to the next number, and are lost.",
    [r"bf(loat)?16|half precision|precision|round", STILL],
    never=[MORE_OF_THE_SAME],
)
def model_loaded_in_bfloat16(stage: Stage) -> None:
    settings = {"learning_rate": 2e-5, "max_steps": 150, "lr_scheduler_type": "constant"}

    def model(kind: torch.dtype) -> Any:
        return stage.model(bert=folder).to(kind)

    folder = pretrained(stage, pairs(seed=5), max_steps=15)

    def score(encoder: Any) -> float:
        questions, passages = (
            encoder.encode(texts, convert_to_tensor=True, show_progress_bar=False).float().numpy()
            for texts in alike().values()
        )
        return reciprocal_rank(questions, passages)

    suffers(
        stage,
        stage.trainer(ranking, pairs(), model(torch.bfloat16), **settings),
        lambda: stage.trainer(ranking, pairs(), model(torch.float32), **settings),
        score,
    )


def adapted(stage: Stage, folder: Any, **options: Any) -> Any:
    """A trained encoder with a LoRA adapter."""
    from peft import LoraConfig, TaskType

    model = stage.model(bert=folder)
    torch.manual_seed(3)
    model.add_adapter(
        LoraConfig(
            task_type=TaskType.FEATURE_EXTRACTION, target_modules=["query", "value", "dense"],
            **{"r": 8, "lora_alpha": 16, "lora_dropout": 0.0, **options},
        )
    )  # fmt: skip
    return model


@faulty(
    "adapter at the rate of full fine-tuning",
    "LoRA is trained at 2e-5, the rate for all weights: the adapter, which begins at 0, hardly "
    "leaves it.",
    [RATE, STILL, r"lora|adapter"],
    never=[MORE_OF_THE_SAME],
)
def adapter_at_two_e_5(stage: Stage) -> None:
    folder = pretrained(stage, pairs(seed=5), max_steps=20)
    suffers(
        stage,
        stage.trainer(ranking, pairs(), adapted(stage, folder), learning_rate=2e-5),
        lambda: stage.trainer(ranking, pairs(), adapted(stage, folder), learning_rate=1e-2),
        among_alike,
    )


@faulty(
    "adapter loaded for use and not for training",
    "The adapter was loaded for use, as is the default: no weight takes a gradient, and training "
    "ends with an error.",
    [
        r"(no|none|without|0|not).{0,60}(trainable|requires?_? ?grad|gradient)",
        r"frozen|freez|inference|trainable|requires_grad",
    ],
    never=[MORE_OF_THE_SAME],
)
def adapter_loaded_for_use(stage: Stage) -> None:
    """The run ends with an error at its first step, so that there is no score to compare.

    https://github.com/huggingface/peft/issues/282: no trainable parameters after loading.
    """
    folder = pretrained(stage, pairs(seed=5), max_steps=5)
    adapted(stage, folder)[0].auto_model.save_pretrained(stage.folder / "adapter")
    model = stage.model(bert=folder)
    model.load_adapter(str(stage.folder / "adapter"))
    stage.play(stage.trainer(ranking, pairs(), model, **FAST), fails=True)


LAST = [
    r"padd",
    r"(last|first|end|pool|eos|token).{0,100}(token|padd|side|position|pool|mask)",
    r"(embedding|text)s?.{0,100}(depend|differ|beside|identical|same|equal)",
]


class LastByCount(torch.nn.Module):
    """The state at the number of tokens less one, which is the last if padding is on the right."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        states, last = features["token_embeddings"], features["attention_mask"].sum(1) - 1
        features["sentence_embedding"] = states[torch.arange(len(states)), last]
        return features

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save nothing: there are no weights."""


class LastPlace(LastByCount):
    """The state at the last place, which is the last token if padding is on the left."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        features["sentence_embedding"] = features["token_embeddings"][:, -1]
        return features


DECODER = {"learning_rate": 3e-3}


def among_uneven(model: Any) -> float:
    return retrieval(model, uneven(100, seed=11))


@faulty(
    "last token sought by the mask's sum, with padding on the left",
    "The pooling takes the token at attention_mask.sum() - 1; the tokenizer pads on the left, "
    "where that is a word in the middle or padding.",
    LAST,
    never=[MORE_OF_THE_SAME],
)
def last_token_by_the_sum_of_the_mask(stage: Stage) -> None:
    """https://github.com/unslothai/unsloth-zoo/pull/968: last token under left padding."""
    suffers(
        stage,
        stage.trainer(ranking, uneven(), decoder(stage, LastByCount(), side="left"), **DECODER),
        lambda: stage.trainer(ranking, uneven(), decoder(stage, side="left"), **DECODER),
        among_uneven,
        share=None,
    )


@faulty(
    "last place taken with padding on the right",
    "The pooling takes hidden[:, -1], and the tokenizer pads on the right: of all but the longest "
    "text of a batch the embedding is a padding token's.",
    LAST,
    never=[MORE_OF_THE_SAME],
)
def padding_for_the_last_token(stage: Stage) -> None:
    suffers(
        stage,
        stage.trainer(ranking, uneven(), decoder(stage, LastPlace()), **DECODER),
        lambda: stage.trainer(ranking, uneven(), decoder(stage), **DECODER),
        among_uneven,
        share=None,
    )


@faulty(
    "input embeddings in place of the last states",
    "The loop takes hidden_states[0], which are the input embeddings, and of them the last token: "
    "the end token, whatever the text says.",
    [
        r"(same|identical|equal|one) (embedding|direction|point|vector)|collaps|all (texts|emb)|"
        r"(embedding|text)s?.{0,80}(same|identical|equal|alike)",
        STILL,
        r"hidden|pool",
    ],
    tools=(REPORT,),
    never=[MORE_OF_THE_SAME],
)
def first_of_the_hidden_states(stage: Stage) -> None:
    def loop(layer: int) -> tuple[float, float]:
        model = decoder(stage)
        body, draw = model[0].auto_model, Batches(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

        def vectors(features: Any) -> Tensor:
            ids, mask = features["input_ids"], features["attention_mask"]
            states = body(ids, attention_mask=mask, output_hidden_states=True).hidden_states[layer]
            return states[torch.arange(len(ids)), mask.sum(1) - 1]

        def score(_: Any) -> float:
            model.eval()
            with torch.no_grad():
                columns = Batches(model, alike())(range(100))
                return reciprocal_rank(*(vectors(column).numpy() for column in columns))

        def update(criterion: Any, step: int) -> None:
            loss = criterion(*map(vectors, draw()))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        if layer:
            return looped_unwatched(model, infonce, update, score=score)
        return looped(stage, model, infonce, update, score=score)

    falls_short(stage, loop(layer=0), loop(layer=-1))
