"""Small random models of `transformers`, saved to a folder as a user would have them."""

import json

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


def clip():
    config = transformers.CLIPConfig(text_config=HIDDEN | TEXT, vision_config=HIDDEN | PICTURE, projection_dim=8)
    return transformers.CLIPModel(config)


def siglip():
    config = transformers.SiglipConfig(text_config=HIDDEN | TEXT, vision_config=HIDDEN | PICTURE)
    return transformers.SiglipModel(config)


def clip_vision():
    return transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**HIDDEN, **PICTURE))


def clip_vision_projecting():
    config = transformers.CLIPVisionConfig(**HIDDEN, **PICTURE, projection_dim=8)
    return transformers.CLIPVisionModelWithProjection(config)


def clip_text():
    return transformers.CLIPTextModel(transformers.CLIPTextConfig(**HIDDEN, **TEXT))


def chinese_clip():
    config = transformers.ChineseCLIPConfig(text_config=HIDDEN | TEXT, vision_config=HIDDEN | PICTURE, projection_dim=8)
    return transformers.ChineseCLIPModel(config)


def siglip2():
    config = transformers.Siglip2Config(
        text_config=HIDDEN | TEXT, vision_config=HIDDEN | {"num_patches": 4, "patch_size": 8}
    )
    return transformers.Siglip2Model(config)


def vit():
    return transformers.ViTModel(transformers.ViTConfig(**HIDDEN, **PICTURE))


def vit_classifier():
    return transformers.ViTForImageClassification(transformers.ViTConfig(**HIDDEN, **PICTURE))


def vit_mae():
    return transformers.ViTMAEModel(transformers.ViTMAEConfig(**HIDDEN, **PICTURE))


def dinov2():
    return transformers.Dinov2Model(transformers.Dinov2Config(**HIDDEN, **PICTURE))


def convnext():
    config = transformers.ConvNextConfig(hidden_sizes=[4, 8, 16], depths=[1, 2, 1], num_stages=3, patch_size=2)
    return transformers.ConvNextModel(config)


def resnet():
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic")
    return transformers.ResNetModel(config)


def efficientnet():
    config = transformers.EfficientNetConfig(
        image_size=32, width_coefficient=0.1, depth_coefficient=0.1, hidden_dim=128
    )
    return transformers.EfficientNetModel(config)


def mobilenet():
    config = transformers.MobileNetV2Config(image_size=32, depth_multiplier=0.1, finegrained_output=False)
    return transformers.MobileNetV2Model(config)


def mobilevit():
    config = transformers.MobileViTConfig(
        image_size=32, hidden_sizes=[8, 8, 8], neck_hidden_sizes=[8, 8, 8, 8, 8, 8, 16],
        num_attention_heads=2,
    )  # fmt: skip
    return transformers.MobileViTModel(config)


def bert():
    return transformers.BertModel(transformers.BertConfig(**HIDDEN, **TEXT))


def bert_for_words():
    return transformers.BertForMaskedLM(transformers.BertConfig(**HIDDEN, **TEXT))


def roberta():
    text = TEXT | {"max_position_embeddings": 11, "pad_token_id": 1}
    return transformers.RobertaModel(transformers.RobertaConfig(**HIDDEN, **text))


def t5():
    config = transformers.T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=len(WORDS))
    return transformers.T5Model(config)


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
