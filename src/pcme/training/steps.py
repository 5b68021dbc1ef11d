"""Steps: one batch forward, backward, clipped and applied; the loss of either task."""

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from pcme.core.random import numpy_stream, torch_stream
from pcme.data.loading.batches import Batch
from pcme.embedding import Embedding, Gaussian
from pcme.errors import DataError
from pcme.recipes.schema import Phase
from pcme.training import checkpoint
from pcme.training.optim import AdamP, clip_gradients
from pcme.training.phases import set_mode
from pcme.training.runs import Run


def train_step(run: Run, batch: Batch, phase: Phase, optimiser: AdamP, factor: float) -> dict[str, float]:
    """One batch: forward, backward, clip, update; the values to log.

    `factor` is the schedule's, on all rates.
    """
    set_mode(run.model, phase)
    if phase.task == "labels":
        loss, values = _label_loss(run, batch)
    else:
        loss, values = _match_loss(run, batch, phase)
    optimiser.zero_grad(set_to_none=True)
    run.precision.backward(loss, optimiser)
    norm = clip_gradients([p for g in optimiser.param_groups for p in g["params"]], phase.clip)
    if torch.isfinite(norm):
        for group in optimiser.param_groups:
            group["lr"] = phase.learning_rate * factor * group["factor"]
        optimiser.step()
        if run.average is not None:
            run.average.update(run.model)
    run.precision.update_scale()
    rate = phase.learning_rate * factor
    return {"loss": loss.item(), **values, "gradient": norm.item(), "learning_rate": rate}


def _label_loss(run: Run, batch: Batch) -> tuple[Float[Tensor, ""], dict[str, float]]:
    """How badly the backbone's strongest features name the labels, summed over labels."""
    assert run.probe is not None, "made with the run"
    assert run.train_set.labels is not None, "checked with it"
    strongest = run.model.features(batch.images, precision=run.precision.narrow).amax(1)
    truth = torch.from_numpy(run.train_set.labels.values[batch.image_index]).to(strongest)
    each = F.binary_cross_entropy_with_logits(run.probe(strongest), truth)
    loss = truth.shape[1] * each
    if not torch.isfinite(loss):
        raise _not_finite(run, batch, "labels")
    return loss, {}


def _match_loss(run: Run, batch: Batch, phase: Phase) -> tuple[Float[Tensor, ""], dict[str, float]]:
    """The objective's loss, and the values to log."""
    model, position = run.model, run.position
    inputs, matches = model.method.mixed(
        batch.images, batch.matches, numpy_stream(run.recipe.seed, "mixing", position.total)
    )
    top = phase.backbone if isinstance(phase.backbone, int) else 0
    images = model.embed_images(inputs, top=top, precision=run.precision.narrow)
    captions = (
        model.embed_tokens(batch.tokens, precision=run.precision.narrow)
        if batch.vectors is None
        else model.embed_caption_vectors(batch.vectors, precision=run.precision.narrow)
    )
    generator = torch_stream(run.recipe.seed, "objective", position.total)
    try:
        terms = model.objective(images, captions, matches.to(model.device), generator)
    except DataError as error:  # the embeddings themselves are not finite
        raise _not_finite(run, batch, str(error)) from error
    loss = terms.total
    if not torch.isfinite(loss):
        named = ", ".join(f"{name} {value.item():g}" for name, value in terms.values.items())
        raise _not_finite(run, batch, named)
    return loss, {
        **{name: value.item() for name, value in terms.values.items()},
        **model.objective.report(),
        **_spread("image", images),
        **_spread("caption", captions),
    }


def _spread(side: str, items: Embedding) -> dict[str, float]:
    """E[log σ], the paper's measure of uncertainty."""
    if not isinstance(items, Gaussian):
        return {}
    return {f"{side}_log_sigma": float(items.log_sigma.detach().mean())}


def _not_finite(run: Run, batch: Batch, values: str) -> DataError:
    return DataError(
        f"the loss is not finite at step {run.position.total}, got {values}; images "
        f"{_first(batch.image_index)}, captions {_first(batch.caption_index)}. Lower the learning "
        f"rate, or its sigma_factor; {checkpoint.last_good(run.checkpoints)}."
    )


def _first(rows: Int64[np.ndarray, " n"]) -> str:
    """The first rows: all of a batch would fill the screen."""
    return f"{rows[:8].tolist()}{' ...' if len(rows) > 8 else ''}"
