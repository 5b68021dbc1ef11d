"""A small ResNet in the layout of TensorFlow.js, with random weights, and its features by formulas alone."""

import json

import numpy as np
import torch
from torch.nn import functional as F

REPEATS = (1, 2, 1, 1)
MEAN_BGR = (103.939, 116.779, 123.68)
NORM = ("gamma", "beta", "moving_mean", "moving_variance")


def shapes(repeats=REPEATS, classes=5):
    """{Keras' name: shape}, written out from the published topology."""
    found = {"conv1/kernel": (7, 7, 3, 64), "conv1/bias": (64,), **norm("bn_conv1", 64)}
    inputs = 64
    for stage, count in enumerate(repeats, start=2):
        width = 16 * 2**stage
        for letter in "abcdef"[:count]:
            ends = {"2a": (1, inputs, width), "2b": (3, width, width), "2c": (1, width, 4 * width)}
            if letter == "a":
                ends["1"] = (1, inputs, 4 * width)
            for branch, (kernel, before, after) in ends.items():
                name = f"{stage}{letter}_branch{branch}"
                found |= {f"res{name}/kernel": (kernel, kernel, before, after), f"res{name}/bias": (after,)}
                found |= norm(f"bn{name}", after)
            inputs = 4 * width
    return found | {"fc1000/kernel": (inputs, classes), "fc1000/bias": (classes,)}


def norm(name, width):
    return {f"{name}/{kind}": (width,) for kind in NORM}


def tensors(repeats=REPEATS, seed=0):
    """Random weights that keep the size of what goes through."""
    g, made = np.random.default_rng(seed), {}
    for name, shape in shapes(repeats).items():
        spread = (2 / np.prod(shape[:-1])) ** 0.5 if len(shape) > 1 else 0.3
        values = spread * g.standard_normal(shape)
        if name.endswith(("gamma", "moving_variance")):
            values = 0.5 + g.random(shape)
        made[name] = values.astype("<f4")
    return made


def write(folder, weights, shards=3):
    """model.json and shards, which cut through tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    data = b"".join(values.tobytes() for values in weights.values())
    size = -(-len(data) // shards)
    names = [f"group1-shard{n + 1}of{shards}.bin" for n in range(shards)]
    for n, name in enumerate(names):
        (folder / name).write_bytes(data[n * size : (n + 1) * size])
    entries = [{"name": n, "shape": list(v.shape), "dtype": "float32"} for n, v in weights.items()]
    manifest = [{"paths": names, "weights": entries}]
    (folder / "model.json").write_text(json.dumps({"modelTopology": {}, "weightsManifest": manifest}))
    return folder


def features(weights, pixels, repeats=REPEATS):
    """[b, s, d] of RGB pixels [b, 3, h, w] from 0 to 255, in double precision, as Keras computes them.

    Blue, green and red without their means; the stride in the first 1x1 convolution; biases; batch norm with 1e-3.
    """
    means = torch.tensor(MEAN_BGR, dtype=torch.float64).view(3, 1, 1)
    state = {name: torch.from_numpy(values.astype(float)) for name, values in weights.items()}

    def layer(x, convolution, norm, stride=1, padding=0):
        kernel = state[f"{convolution}/kernel"].permute(3, 2, 0, 1)
        x = F.conv2d(x, kernel, state[f"{convolution}/bias"], stride, padding)
        gamma, beta, mean, variance = (state[f"{norm}/{kind}"].view(-1, 1, 1) for kind in NORM)
        return gamma * (x - mean) / (variance + 1e-3).sqrt() + beta

    x = layer(F.pad(pixels.double().flip(1) - means, (3, 3, 3, 3)), "conv1", "bn_conv1", 2).relu()
    x = F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2)
    for stage, count in enumerate(repeats, start=2):
        for letter in "abcdef"[:count]:
            stride, at = (2 if letter == "a" and stage > 2 else 1), f"{stage}{letter}_branch"
            y = layer(x, f"res{at}2a", f"bn{at}2a", stride).relu()
            y = layer(y, f"res{at}2b", f"bn{at}2b", padding=1).relu()
            y = layer(y, f"res{at}2c", f"bn{at}2c")
            short = layer(x, f"res{at}1", f"bn{at}1", stride) if letter == "a" else x
            x = (y + short).relu()
    return x.flatten(2).transpose(1, 2)
