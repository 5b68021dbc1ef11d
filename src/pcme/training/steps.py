"""Steps: one batch forward, backward, clipped and applied; the loss of either task.

A step reads the device once, when the gradients are there: the values to log, the loss and the gradients' norm. Before
and after it work is only queued, so that the device need not wait for the next batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from pcme.core.random import numpy_stream, torch_stream
from pcme.data.loading.batches import Batch
from pcme.embedding import Embedding, Gaussian
from pcme.errors import DataError
from pcme.kernels.devices import generator_device
from pcme.training import checkpoint
from pcme.training.optim import AdamP, clip_gradients
from pcme.training.phases import learning_blocks, set_mode
from pcme.training.runs import Run


@dataclass(frozen=True)
class Values:
    """The values of a step, on the device until they are read."""

    loss: Float[Tensor, ""]
    terms: Mapping[str, Float[Tensor, ""]]
    logged: Mapping[str, Float[Tensor, ""] | float]

    def read(self, norm: Float[Tensor, ""]) -> dict[str, float]:
        """All of them and the gradients' norm, by one transfer."""
        named = {"loss": self.loss, **self.terms, **self.logged, "gradient": norm}
        tensors = {
            name: value.detach().to(self.loss.dtype) for name, value in named.items() if isinstance(value, Tensor)
        }
        numbers = dict(zip(tensors, torch.stack(list(tensors.values())).tolist(), strict=True))
        return {name: numbers[name] if name in numbers else float(value) for name, value in named.items()}


def train_step(run: Run, batch: Batch, optimiser: AdamP, factor: float) -> dict[str, float]:
    """One batch: forward, backward, clip, update; the values to log.

    `factor` is the schedule's, on all rates.
    """
    values, norm = gradients_of(run, batch, optimiser)
    numbers = values.read(norm)
    if not np.isfinite(numbers["loss"]):
        shown = {name: numbers[name] for name in values.terms}
        raise _not_finite(run, batch, ", ".join(f"{name} {value:g}" for name, value in shown.items()) or "labels")
    rate = run.phase.learning_rate * factor
    if np.isfinite(numbers["gradient"]):
        apply_gradients(run, optimiser, rate)
    run.precision.scaler.update()
    return {**numbers, "learning_rate": rate}


def gradients_of(run: Run, batch: Batch, optimiser: AdamP) -> tuple[Values, Float[Tensor, ""]]:
    """The values of a batch, and the norm of its gradients, which are then clipped."""
    phase = run.phase
    set_mode(run.model, phase)
    values = _label_loss(run, batch) if phase.task == "labels" else _match_loss(run, batch)
    optimiser.zero_grad(set_to_none=True)
    run.precision.backward(values.loss, optimiser)
    return values, clip_gradients([p for g in optimiser.param_groups for p in g["params"]], phase.clip)


def apply_gradients(run: Run, optimiser: AdamP, rate: float) -> None:
    """Change the weights, and the average of them."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["factor"]
    optimiser.step()
    if run.average is not None:
        run.average.update(run.model)


def _label_loss(run: Run, batch: Batch) -> Values:
    """How badly the backbone's strongest features name the labels, summed over labels."""
    assert run.probe is not None, "made with the run"
    assert run.train_set.labels is not None, "checked with it"
    strongest = run.model.features(batch.images, precision=run.precision.narrow).amax(1)
    truth = torch.from_numpy(run.train_set.labels.values[batch.image_index]).to(strongest, non_blocking=True)
    return Values(truth.shape[1] * F.binary_cross_entropy_with_logits(run.probe(strongest), truth), {}, {})


def _match_loss(run: Run, batch: Batch) -> Values:
    """The objective's loss, and the values to log."""
    model, seed, step, narrow = run.model, run.recipe.seed, run.position.total, run.precision.narrow
    inputs, matches = model.method.mixed(batch.images, batch.matches, numpy_stream(seed, "mixing", step))
    images = model.embed_images(inputs, top=learning_blocks(run.phase), precision=narrow)
    if batch.vectors is None:
        captions = model.embed_tokens(batch.tokens, precision=narrow)
    else:
        captions = model.embed_caption_vectors(batch.vectors, precision=narrow)
    truth = matches.to(model.device, non_blocking=True)
    generator = torch_stream(seed, "objective", step, device=generator_device(model.device))
    try:
        terms = model.objective(images, captions, truth, generator)
    except DataError as error:  # the embeddings themselves are not finite
        raise _not_finite(run, batch, str(error)) from error
    logged = {**model.objective.report(), **_spread("image", images), **_spread("caption", captions)}
    return Values(terms.total, terms.values, logged)


def _spread(side: str, items: Embedding) -> dict[str, Float[Tensor, ""]]:
    """E[log σ], the paper's measure of uncertainty."""
    if not isinstance(items, Gaussian):
        return {}
    return {f"{side}_log_sigma": items.log_sigma.detach().mean()}


def _not_finite(run: Run, batch: Batch, values: str) -> DataError:
    return DataError(
        f"the loss is not finite at step {run.position.total}, got {values}; images {_first(batch.image_index)}, "
        f"captions {_first(batch.caption_index)}. Lower the learning rate, or its sigma_factor; "
        f"{checkpoint.last_good(run.checkpoints)}."
    )


def _first(rows: Int64[np.ndarray, " n"]) -> str:
    """The first rows: all of a batch would fill the screen."""
    return f"{rows[:8].tolist()}{' ...' if len(rows) > 8 else ''}"
