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
from pcme.training import checkpoint
from pcme.training.optim import AdamP, clip_gradients
from pcme.training.phases import learning_blocks, set_mode
from pcme.training.runs import Run


def train_step(run: Run, batch: Batch, optimiser: AdamP, factor: float) -> dict[str, float]:
    """One batch: forward, backward, clip, update; the values to log.

    `factor` is the schedule's, on all rates.
    """
    phase = run.phase
    set_mode(run.model, phase)
    loss, values = _label_loss(run, batch) if phase.task == "labels" else _match_loss(run, batch)
    optimiser.zero_grad(set_to_none=True)
    run.precision.backward(loss, optimiser)
    norm = clip_gradients([p for g in optimiser.param_groups for p in g["params"]], phase.clip)
    rate = phase.learning_rate * factor
    if torch.isfinite(norm):
        for group in optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        optimiser.step()
        if run.average is not None:
            run.average.update(run.model)
    run.precision.scaler.update()
    return {"loss": loss.item(), **values, "gradient": norm.item(), "learning_rate": rate}


def _label_loss(run: Run, batch: Batch) -> tuple[Float[Tensor, ""], dict[str, float]]:
    """How badly the backbone's strongest features name the labels, summed over labels."""
    assert run.probe is not None, "made with the run"
    assert run.train_set.labels is not None, "checked with it"
    strongest = run.model.features(batch.images, precision=run.precision.narrow).amax(1)
    truth = torch.from_numpy(run.train_set.labels.values[batch.image_index]).to(strongest)
    loss = truth.shape[1] * F.binary_cross_entropy_with_logits(run.probe(strongest), truth)
    if not torch.isfinite(loss):
        raise _not_finite(run, batch, "labels")
    return loss, {}


def _match_loss(run: Run, batch: Batch) -> tuple[Float[Tensor, ""], dict[str, float]]:
    """The objective's loss, and the values to log."""
    model, seed, step, narrow = run.model, run.recipe.seed, run.position.total, run.precision.narrow
    inputs, matches = model.method.mixed(batch.images, batch.matches, numpy_stream(seed, "mixing", step))
    images = model.embed_images(inputs, top=learning_blocks(run.phase), precision=narrow)
    if batch.vectors is None:
        captions = model.embed_tokens(batch.tokens, precision=narrow)
    else:
        captions = model.embed_caption_vectors(batch.vectors, precision=narrow)
    try:
        terms = model.objective(images, captions, matches.to(model.device), torch_stream(seed, "objective", step))
    except DataError as error:  # the embeddings themselves are not finite
        raise _not_finite(run, batch, str(error)) from error
    values = {name: value.item() for name, value in terms.values.items()}
    loss = terms.total
    if not torch.isfinite(loss):
        raise _not_finite(run, batch, ", ".join(f"{name} {value:g}" for name, value in values.items()))
    return loss, {**values, **model.objective.report(), **_spread("image", images), **_spread("caption", captions)}


def _spread(side: str, items: Embedding) -> dict[str, float]:
    """E[log σ], the paper's measure of uncertainty."""
    if not isinstance(items, Gaussian):
        return {}
    return {f"{side}_log_sigma": float(items.log_sigma.detach().mean())}


def _not_finite(run: Run, batch: Batch, values: str) -> DataError:
    return DataError(
        f"the loss is not finite at step {run.position.total}, got {values}; images {_first(batch.image_index)}, "
        f"captions {_first(batch.caption_index)}. Lower the learning rate, or its sigma_factor; "
        f"{checkpoint.last_good(run.checkpoints)}."
    )


def _first(rows: Int64[np.ndarray, " n"]) -> str:
    """The first rows: all of a batch would fill the screen."""
    return f"{rows[:8].tolist()}{' ...' if len(rows) > 8 else ''}"
