"""A checkpoint of the authors' with random weights, and what their model computes from it.

Their names and shapes; the computation is written anew, step by step, from their description.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

REPEATS = {"resnet18": (2, 2, 2, 2), "resnet50": (3, 4, 6, 3), "resnet152": (3, 8, 36, 3)}
WORDS = ("<pad>", "<start>", "<end>", "<unk>", "a", "bird", ".", "red", "blue-grey", "'s", "not")


def checkpoint(cnn="resnet18", dim=8, word_dim=6, words=WORDS, seed=0):
    """What their trainer writes after an epoch."""
    generator = torch.Generator().manual_seed(seed)
    shapes = dict(shapes_of(cnn, dim, word_dim, len(words)))
    model = {name: _drawn(name, shape, generator) for name, shape in shapes.items()}
    return {
        "model": model,
        "criterion": {"shift": torch.tensor([4.5]), "negative_scale": torch.tensor([6.25])},
        "optimizer": {"state": {0: {"step": 3}}, "param_groups": [{"lr": 1e-4, "params": [0]}]},
        "lr_scheduler": {"T_max": 50, "last_epoch": 1, "base_lrs": [1e-4]},
        "config": {
            "model": {
                "name": "pcme", "embed_dim": dim, "cnn_type": cnn, "wemb_type": "glove",
                "word_dim": word_dim, "cache_dir": None, "img_attention": True,
                "txt_attention": True, "img_finetune": True, "txt_finetune": True,
                "img_probemb": True, "txt_probemb": True, "n_samples_inference": 7,
            },
            "criterion": {"name": "pcme", "init_shift": 5, "vib_beta": 0.001, "uniform_lambda": 10},
            "dataloader": {"batch_size": 128},
        },
        "word2idx": {word: number for number, word in enumerate(words)},
        "metadata": {"cur_epoch": 1, "lr": 1e-4, "scores": {"rsum": 12.5}},
    }  # fmt: skip


def shapes_of(cnn, dim, word_dim, words):
    """(name, shape) of every tensor of their state dict, in no particular order."""
    yield from ((f"img_enc.cnn.{name}", shape) for name, shape in _backbone(cnn))
    wide = 512 if cnn == "resnet18" else 2048
    yield from _linear("img_enc.fc", wide, dim)
    yield from _linear("img_enc.uncertain_net.fc2", wide, dim)
    for side, width in (("img_enc", wide), ("txt_enc", word_dim)):
        for net in ("pie_net", "uncertain_net"):
            yield f"{side}.{net}.attention.w_1.weight", (width // 2, width)
            yield f"{side}.{net}.attention.w_2.weight", (1, width // 2)
            yield from _linear(f"{side}.{net}.fc", width, dim)
        yield f"{side}.pie_net.layer_norm.weight", (dim,)
        yield f"{side}.pie_net.layer_norm.bias", (dim,)
    yield "txt_enc.embed.weight", (words, word_dim)
    for rnn in ("txt_enc.rnn", "txt_enc.uncertain_net.rnn"):
        for end in ("l0", "l0_reverse"):
            yield f"{rnn}.weight_ih_{end}", (3 * dim // 2, word_dim)
            yield f"{rnn}.weight_hh_{end}", (3 * dim // 2, dim // 2)
            yield f"{rnn}.bias_ih_{end}", (3 * dim // 2,)
            yield f"{rnn}.bias_hh_{end}", (3 * dim // 2,)


def image_outputs(record, pixels):
    """(mean, log sigma) of normalised pixels [b, 3, 224, 224]."""
    state, cnn = record["model"], record["config"]["model"]["cnn_type"]
    maps = _resnet(_below(state, "img_enc.cnn."), cnn, pixels)
    sites = maps.reshape(len(maps), maps.shape[1], 49).permute(0, 2, 1)
    pooled = sites.mean(1)
    enc = _below(state, "img_enc.")
    base = F.linear(pooled, enc["fc.weight"], enc["fc.bias"])
    mean = _pie(_below(enc, "pie_net."), base, sites, None)
    net = _below(enc, "uncertain_net.")
    spread = F.linear(pooled, net["fc2.weight"], net["fc2.bias"])
    return mean, spread + _residual(net, sites, None)


def caption_outputs(record, ids):
    """(mean, log sigma) of captions, given as lists of ids with start and end."""
    state = record["model"]
    order = sorted(range(len(ids)), key=lambda row: -len(ids[row]))
    lengths = torch.tensor([len(ids[row]) for row in order])
    padded = torch.zeros(len(ids), int(lengths[0]), dtype=torch.long)
    for place, row in enumerate(order):
        padded[place, : len(ids[row])] = torch.tensor(ids[row])
    enc = _below(state, "txt_enc.")
    words = enc["embed.weight"][padded]
    absent = torch.arange(words.shape[1])[None] >= lengths[:, None]
    mean = _pie(_below(enc, "pie_net."), _at_last_word(_below(enc, "rnn."), words, lengths), words, absent)
    net = _below(enc, "uncertain_net.")
    spread = _at_last_word(_below(net, "rnn."), words, lengths) + _residual(net, words, absent)
    back = [order.index(row) for row in range(len(ids))]
    return mean[back], spread[back]


def _pie(net, base, sites, absent):
    value = base + torch.sigmoid(_residual(net, sites, absent))
    weight, bias = net["layer_norm.weight"], net["layer_norm.bias"]
    return F.normalize(F.layer_norm(value, (len(weight),), weight, bias), dim=-1)


def _residual(net, sites, absent):
    logits = torch.tanh(sites @ net["attention.w_1.weight"].T) @ net["attention.w_2.weight"].T
    logits = logits[..., 0]
    if absent is not None:
        logits = logits.masked_fill(absent, -math.inf)
    attended = (logits.softmax(1)[..., None] * sites).sum(1)
    return F.linear(attended, net["fc.weight"], net["fc.bias"])


def _at_last_word(weights, words, lengths):
    """Both directions of a packed GRU, read where the forward one is at the last word."""
    hidden = weights["weight_hh_l0"].shape[1]
    gru = nn.GRU(words.shape[2], hidden, bidirectional=True, batch_first=True)
    gru.load_state_dict(weights)
    with torch.no_grad():
        outputs, _ = gru(pack_padded_sequence(words, lengths, batch_first=True))
        steps, _ = pad_packed_sequence(outputs, batch_first=True)
    return steps[torch.arange(len(words)), lengths - 1]


def _resnet(state, cnn, x):
    x = F.relu(_normed(state, "bn1", F.conv2d(x, state["conv1.weight"], stride=2, padding=3)))
    x = F.max_pool2d(x, 3, 2, 1)
    for stage, repeats in enumerate(REPEATS[cnn], start=1):
        for block in range(repeats):
            stride = 2 if stage > 1 and block == 0 else 1
            x = _block(_below(state, f"layer{stage}.{block}."), x, stride)
    return x


def _block(state, x, stride):
    strides = (1, stride, 1) if "conv3.weight" in state else (stride, 1)
    y = x
    for number, step in enumerate(strides, start=1):
        weight = state[f"conv{number}.weight"]
        y = F.conv2d(y, weight, stride=step, padding=weight.shape[-1] // 2)
        y = _normed(state, f"bn{number}", y)
        y = F.relu(y) if number < len(strides) else y
    if "downsample.0.weight" in state:
        x = F.conv2d(x, state["downsample.0.weight"], stride=stride)
        x = _normed(state, "downsample.1", x)
    return F.relu(x + y)


def _normed(state, name, x):
    part = _below(state, f"{name}.")
    return F.batch_norm(x, part["running_mean"], part["running_var"], part["weight"], part["bias"], eps=1e-5)


def _below(state, prefix):
    return {name[len(prefix) :]: v for name, v in state.items() if name.startswith(prefix)}


def _backbone(cnn):
    yield "conv1.weight", (64, 3, 7, 7)
    yield from _norm("bn1", 64)
    deep = cnn != "resnet18"
    inputs = 64
    for stage, repeats in enumerate(REPEATS[cnn], start=1):
        width = 64 * 2 ** (stage - 1)
        outputs = width * (4 if deep else 1)
        for block in range(repeats):
            at = f"layer{stage}.{block}"
            kernels = (1, 3, 1) if deep else (3, 3)
            widths = (width, width, outputs) if deep else (width, width)
            before = inputs
            for number, (kernel, after) in enumerate(zip(kernels, widths, strict=True), start=1):
                yield f"{at}.conv{number}.weight", (after, before, kernel, kernel)
                yield from _norm(f"{at}.bn{number}", after)
                before = after
            if block == 0 and (stage > 1 or inputs != outputs):
                yield f"{at}.downsample.0.weight", (outputs, inputs, 1, 1)
                yield from _norm(f"{at}.downsample.1", outputs)
            inputs = outputs


def _norm(name, width):
    for part in ("weight", "bias", "running_mean", "running_var"):
        yield f"{name}.{part}", (width,)
    yield f"{name}.num_batches_tracked", ()


def _linear(name, inputs, outputs):
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _drawn(name, shape, generator):
    if name.endswith("num_batches_tracked"):
        return torch.tensor(7)
    values = torch.randn(shape, generator=generator)
    if name.endswith("running_var") or ("bn" in name and name.endswith("weight")):
        return 0.5 + values.abs() / 2
    fan = math.prod(shape[1:]) if len(shape) > 1 else 25
    return values / math.sqrt(fan)
