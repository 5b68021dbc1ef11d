"""Text towers of a run: which settings need one, and what the frozen ones make of the training captions."""

from collections.abc import Sequence

from pcme.core.progress import part_of
from pcme.data.loading.caption_states import CaptionStates
from pcme.data.text.perturbation import WordAugmentation
from pcme.errors import ConfigError
from pcme.model import Model
from pcme.model.frozen import cached_states
from pcme.recipes.schema import Recipe
from pcme.training.phases import towers_are_frozen
from pcme.training.runs import Run


def require_towers(recipe: Recipe, model: Model) -> None:
    """Refuse settings of text towers where there is none, or none whose states can be cached."""
    towers, views = model.captions.words.towers(), recipe.augment.caption_views
    keys = {f"phases.{number}.text_tower": phase.text_tower for number, phase in enumerate(recipe.phases)}
    keys["augment.caption_views"] = views
    for key, value in keys.items():
        if value is not None and not towers:
            raise ConfigError(
                f"{key}: needs a text tower, and the caption backbone {recipe.caption.kind} has none, got {value}. "
                "Set caption.kind=minilm or hub, or leave it out."
            )
    if views is not None and not all(tower.cacheable for tower in towers):
        raise ConfigError(
            f"augment.caption_views: needs vectors that are the means of tokens, got {views} views of a tower that "
            "pools in another way. Set caption.pool=mean, or leave it out."
        )
    if views is not None and recipe.sampling.afresh:
        raise ConfigError(
            f"augment.caption_views: needs captions that stay, got {views} views of captions written at every step. "
            "Set sampling.afresh=false, or leave it out."
        )


def caption_states(run: Run) -> Sequence[Sequence[CaptionStates]]:
    """The states of frozen text towers for every view of the captions; nothing where the towers run at every step."""
    augment, model, data = run.recipe.augment, run.model, run.train_set
    towers = model.captions.words.towers()
    if not towers or run.phase.task != "match" or not towers_are_frozen(model, run.phase):
        return ()
    if augment.caption_views is None:
        if all(tower.cacheable for tower in towers) and not run.recipe.sampling.afresh:
            run.reporter.note(
                "the frozen text tower runs at every step; augment.caption_views=4 caches what it makes of four draws "
                "of every caption"
            )
        return ()
    augmentation = WordAugmentation(augment.word_drop, augment.word_erasing)
    views = 1 if augmentation.deterministic else augment.caption_views
    sentences = [model.tokeniser.split(caption) for caption in data.captions]
    return [
        cached_states(
            model,
            [augmentation.view(words, view, caption) for caption, words in enumerate(sentences)],
            progress=part_of(run.reporter.progress, view, views),
        )
        for view in range(views)
    ]
