"""Steps: one batch forward, backward, clipped and taken; the loss of either task."""

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor
from torch.nn import functional as F

from pcme.core.random import numpy_stream, torch_stream
from pcme.data.images.transforms import normalise
from pcme.data.loading.batches import Batch
from pcme.embedding import Embedding, Gaussian
from pcme.errors import DataError
from pcme.nn.backbone import Features
from pcme.recipes.schema import Phase
from pcme.training import checkpoint
from pcme.training.optim import AdamP, clip_gradients
from pcme.training.phases import set_mode
from pcme.training.runs import Run

__all__ = ["take"]


def take(run: Run, batch: Batch, phase: Phase, optimiser: AdamP, factor: float) -> dict[str, float]:
    """One batch: forward, backward, clip, update. `factor` is the schedule's, on all rates."""
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
    run.precision.stepped()
    rate = phase.learning_rate * factor
    return {"loss": loss.item(), **values, "gradient": norm.item(), "learning_rate": rate}


def _label_loss(run: Run, batch: Batch) -> tuple[Float[Tensor, ""], dict[str, float]]:
    """How badly the backbone's strongest features name the labels, summed over labels."""
    assert run.probe is not None, "made with the run"
    assert run.train_set.labels is not None, "checked with it"
    strongest = _sites(run, batch.images).amax(1)
    truth = torch.from_numpy(run.train_set.labels.values[batch.image_index]).to(strongest)
    each = F.binary_cross_entropy_with_logits(run.probe(strongest), truth)
    loss = truth.shape[1] * each
    if not torch.isfinite(loss):
        raise _not_finite(run, batch, "labels")
    return loss, {}


def _match_loss(run: Run, batch: Batch, phase: Phase) -> tuple[Float[Tensor, ""], dict[str, float]]:
    """The objective's loss, and what is worth watching."""
    model, position = run.model, run.position
    inputs, matches = model.method.mixed(
        batch.images, batch.matches, numpy_stream(run.recipe.seed, "mixing", position.total)
    )
    images, captions = _images(run, inputs, phase), _captions(run, batch)
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


def _images(run: Run, inputs: Shaped[Tensor, "b ..."], phase: Phase) -> Embedding:
    """`Model.embed_images` in the run's precision; what the heads decide is in float32.

    Inputs are 8-bit pixels, or what was kept of a held backbone: its maps, or its last features.
    """
    if inputs.dtype == torch.uint8:
        features = _sites(run, inputs)
    elif inputs.ndim == 4:
        assert isinstance(phase.backbone, int), "maps are kept only where the last blocks learn"
        with run.precision.narrow():
            maps = inputs.to(run.model.device)
            features = run.model.images.network.above(maps, phase.backbone).float()
    else:
        features = inputs.to(run.model.device)
    with run.precision.narrow():
        return run.model.images(features)  # type: ignore[no-any-return]


def _captions(run: Run, batch: Batch) -> Embedding:
    """`Model.embed_tokens` with the words in the run's precision; the heads are in float32."""
    tower, device, tokens = run.model.captions, run.model.device, batch.tokens
    with run.precision.narrow():
        found: Features = (
            tower.words(tokens.ids.to(device), tokens.lengths.to(device))
            if batch.vectors is None
            else tower.words(batch.vectors.to(device))
        )
    wide = Features(found.local.float(), found.pooled.float(), found.spread.float(), found.mask)
    return tower.heads(wide)  # type: ignore[no-any-return]


def _sites(run: Run, pixels: UInt8[Tensor, "b 3 h w"]) -> Float[Tensor, "b s d"]:
    """The backbone's features, computed in the run's precision, in float32."""
    network = run.model.images.network
    with run.precision.narrow():
        sites: Tensor = network(normalise(pixels.to(run.model.device), network.mean, network.std))
    return sites.float()


def _spread(side: str, items: Embedding) -> dict[str, float]:
    """E[log σ], the paper's measure of how wide items are."""
    if not isinstance(items, Gaussian):
        return {}
    return {f"{side}_log_sigma": float(items.log_sigma.detach().mean())}


def _not_finite(run: Run, batch: Batch, found: str) -> DataError:
    return DataError(
        f"the loss is not finite at step {run.position.total} ({found}) - images "
        f"{_some(batch.image_index)}, captions {_some(batch.caption_index)} - "
        f"{checkpoint.last_good(run.checkpoints)}; lower the learning rate, or its sigma_factor"
    )


def _some(numbers: np.ndarray) -> str:
    """The first of them: all of a batch would fill the screen."""
    return f"{numbers[:8].tolist()}{' ...' if len(numbers) > 8 else ''}"
