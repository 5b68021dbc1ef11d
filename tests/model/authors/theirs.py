"""A checkpoint of the authors' with random weights, and their heads, written anew from their description."""

import math
import os

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from pcme.nn.images.resnet import ResNetwork

WORDS = ("<pad>", "<start>", "<end>", "<unk>", "a", "bird", ".", "red", "blue-grey", "'s", "not")


class Malicious(str):
    """A command that is run when it is unpickled."""

    def __reduce__(self):
        return os.system, (str(self),)


def checkpoint(cnn="resnet18", dim=8, word_dim=6, words=WORDS, seed=0):
    """What their trainer writes after an epoch."""
    generator = torch.Generator().manual_seed(seed)
    state = Model(cnn, dim, word_dim, len(words)).state_dict()
    return {
        "model": {name: _drawn(name, value.shape, generator) for name, value in state.items()},
        "criterion": {"shift": torch.tensor([4.5]), "negative_scale": torch.tensor([6.25])},
        "optimizer": {"state": {0: {"step": 3}}, "param_groups": [{"lr": 1e-4, "params": [0]}]},
        "config": {
            "model": {
                "embed_dim": dim, "cnn_type": cnn, "word_dim": word_dim, "cache_dir": None, "img_attention": True,
                "txt_attention": True, "img_probemb": True, "txt_probemb": True, "n_samples_inference": 7,
            },
            "criterion": {"name": "pcme", "uniform_lambda": 10},
        },
        "word2idx": {word: number for number, word in enumerate(words)},
        "metadata": {"cur_epoch": 1, "lr": 1e-4, "scores": {"rsum": 12.5}},
    }  # fmt: skip


def _drawn(name, shape, generator):
    if name.endswith("num_batches_tracked"):
        return torch.tensor(7)
    values = torch.randn(shape, generator=generator)
    if name.endswith("running_var") or ("bn" in name and name.endswith("weight")):
        return 0.5 + values.abs() / 2
    fan = math.prod(shape[1:]) if len(shape) > 1 else 25
    return values / math.sqrt(fan)


class Model(nn.Module):
    """Both encoders, without weights until a checkpoint's are loaded."""

    def __init__(self, cnn, dim, word_dim, words):
        super().__init__()
        width = 512 if cnn == "resnet18" else 2048
        with torch.device("meta"):
            # torchvision's; tests/nn/images/test_resnet.py holds it to a functional one
            resnet = ResNetwork(int(cnn.removeprefix("resnet")))
            self.img_enc = _encoder(width, dim, cnn=resnet, fc=nn.Linear(width, dim))
            self.img_enc.uncertain_net.fc2 = nn.Linear(width, dim)
            self.txt_enc = _encoder(word_dim, dim, embed=nn.Embedding(words, word_dim), rnn=_gru(word_dim, dim))
            self.txt_enc.uncertain_net.rnn = _gru(word_dim, dim)

    @classmethod
    def of(cls, record):
        config = record["config"]["model"]
        model = cls(config["cnn_type"], config["embed_dim"], config["word_dim"], len(record["word2idx"]))
        model.load_state_dict(record["model"], assign=True)
        return model.eval()

    def images(self, pixels):
        """(mean, log sigma) of normalised pixels [b, 3, 224, 224]."""
        enc = self.img_enc
        sites = enc.cnn(pixels)
        pooled = sites.mean(1)
        mean = _mean(enc.pie_net, enc.fc(pooled), sites)
        return mean, enc.uncertain_net.fc2(pooled) + enc.uncertain_net(sites)

    def captions(self, ids):
        """(mean, log sigma) of captions, given as lists of ids with start and end."""
        enc, lengths = self.txt_enc, torch.tensor(list(map(len, ids)))
        words = enc.embed(nn.utils.rnn.pad_sequence(list(map(torch.tensor, ids)), batch_first=True))
        absent = torch.arange(words.shape[1]) >= lengths[:, None]
        mean = _mean(enc.pie_net, _at_last_word(enc.rnn, words, lengths), words, absent)
        net = enc.uncertain_net
        return mean, _at_last_word(net.rnn, words, lengths) + net(words, absent)


def _encoder(width, dim, **parts):
    enc = nn.ModuleDict({**parts, "pie_net": Residual(width, dim), "uncertain_net": Residual(width, dim)})
    enc.pie_net.layer_norm = nn.LayerNorm(dim)
    return enc


def _gru(word_dim, dim):
    return nn.GRU(word_dim, dim // 2, bidirectional=True, batch_first=True)


def _at_last_word(gru, words, lengths):
    """Both directions, read where the forward one is at the last word."""
    outputs, _ = gru(pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False))
    steps, _ = pad_packed_sequence(outputs, batch_first=True)
    return steps[torch.arange(len(words)), lengths - 1]


def _mean(net, base, sites, absent=None):
    return F.normalize(net.layer_norm(base + torch.sigmoid(net(sites, absent))), dim=-1)


class Residual(nn.Module):
    """An attention over sites or words, and a layer on what it attends to."""

    def __init__(self, width, dim):
        super().__init__()
        first, second = nn.Linear(width, width // 2, bias=False), nn.Linear(width // 2, 1, bias=False)
        self.attention = nn.ModuleDict({"w_1": first, "w_2": second})
        self.fc = nn.Linear(width, dim)

    def forward(self, sites, absent=None):
        logits = self.attention.w_2(self.attention.w_1(sites).tanh())[..., 0]
        if absent is not None:
            logits = logits.masked_fill(absent, -math.inf)
        return self.fc((logits.softmax(1)[..., None] * sites).sum(1))
