"""Small random models of `transformers`, saved to a folder as a user would have them."""

import json
from functools import partial

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from pcme.nn import captions, images
from pcme.nn.backbone import Build
from tests.helpers import generator

HIDDEN = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
}  # fmt: skip
PICTURE = {"image_size": 16, "patch_size": 8}
WORDS = ("<pad>", "<s>", "</s>", "<unk>", "a", "bird", "red", "blue", "with", "long", "bill", ".")
TEXT = {
    "vocab_size": len(WORDS), "max_position_embeddings": 9, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 0,
}  # fmt: skip


def model(kind, **options):
    """A model with random weights and the config of its class."""
    cls = getattr(transformers, kind)
    return cls(cls.config_class(**options))


def name(make):
    return make.args[0]


VISION, WORDED = HIDDEN | PICTURE, HIDDEN | TEXT
BOTH = {"text_config": WORDED, "vision_config": VISION}
clip = partial(model, "CLIPModel", **BOTH, projection_dim=8)
clip_text = partial(model, "CLIPTextModel", **WORDED)
clip_vision = partial(model, "CLIPVisionModel", **VISION)
clip_vision_projecting = partial(model, "CLIPVisionModelWithProjection", **VISION, projection_dim=8)
chinese_clip = partial(model, "ChineseCLIPModel", **BOTH, projection_dim=8)
siglip = partial(model, "SiglipModel", **BOTH)
siglip2 = partial(model, "Siglip2Model", text_config=WORDED, vision_config=HIDDEN | {"num_patches": 4, "patch_size": 8})
vit = partial(model, "ViTModel", **VISION)
vit_classifier = partial(model, "ViTForImageClassification", **VISION)
vit_mae = partial(model, "ViTMAEModel", **VISION)
dinov2 = partial(model, "Dinov2Model", **VISION)
convnext = partial(model, "ConvNextModel", hidden_sizes=[4, 8, 16], depths=[1, 2, 1], num_stages=3, patch_size=2)
resnet = partial(model, "ResNetModel", embedding_size=4, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic")
efficientnet = partial(
    model, "EfficientNetModel", image_size=32, width_coefficient=0.1, depth_coefficient=0.1, hidden_dim=128
)
mobilenet = partial(model, "MobileNetV2Model", image_size=32, depth_multiplier=0.1, finegrained_output=False)
MOBILE_VIT = {"hidden_sizes": [8] * 3, "neck_hidden_sizes": [8] * 6 + [16], "num_attention_heads": 2}
mobilevit = partial(model, "MobileViTModel", image_size=32, **MOBILE_VIT)
bert = partial(model, "BertModel", **WORDED)
bert_for_words = partial(model, "BertForMaskedLM", **WORDED)
roberta = partial(model, "RobertaModel", **WORDED | {"max_position_embeddings": 11, "pad_token_id": 1})
t5 = partial(model, "T5Model", d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=len(WORDS))


def tokeniser():
    ids = {word: number for number, word in enumerate(WORDS)}
    words = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        unk_token="<unk>", model_max_length=9,
    )  # fmt: skip


IMAGE_TOWERS = (clip, siglip, vit, dinov2, convnext, resnet)
CAPTION_TOWERS = (clip, siglip, bert)
COLOURS = ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])


def built(side, folder, **params):
    """The hub backbone of a side ("image" or "caption") with the tower in a folder."""
    kinds = {"image": images, "caption": captions}
    return kinds[side].create("hub", source=str(folder), **params).build(Build(generator(), 8)).eval()


def saved(make, folder, *, seed=0, words=False, colours=None):
    """The folder with the model, its tokeniser if asked, and its processor's file."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make().eval()
    for buffer in model.buffers():  # BatchNorm statistics that are not just 0 and 1
        if buffer.is_floating_point():
            buffer.add_(0.1)
    model.save_pretrained(folder)
    if words:
        tokeniser().save_pretrained(folder)
    if colours is not None:
        record = dict(zip(("image_mean", "image_std"), colours, strict=True))
        (folder / "preprocessor_config.json").write_text(json.dumps(record))
    return model
