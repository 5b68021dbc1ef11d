import pytest
import torch

from pcme.errors import FormatError
from pcme.model.authors.sizes import Sizes, infer_sizes, require_usable
from tests.model.authors import theirs

BIAS, COUNTER = "img_enc.fc.bias", "img_enc.cnn.bn1.num_batches_tracked"


@pytest.mark.parametrize(("cnn", "depth"), [("resnet18", 18), ("resnet50", 50), ("resnet152", 152)])
def test_the_tensors_tell_all_sizes(cnn, depth):
    weights = theirs.Model(cnn, 8, 6, 11).state_dict()
    assert infer_sizes(weights, "x.pth") == Sizes(depth, dim=8, word_dim=6, words=11)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("img_enc.fc.weight", (7, 512), "must have an even number of rows"),
        ("img_enc.fc.weight", (60_000, 512), "txt_enc.rnn.weight_hh_l0 must have the shape"),
        ("img_enc.fc.weight", (8,), r"must be a matrix, got \[8\]"),
        ("txt_enc.embed.weight", (11, 600), "txt_enc.rnn.weight_ih_l0 must have the shape"),
        ("txt_enc.embed.weight", (0, 6), "must be a matrix"),
        ("img_enc.cnn.layer1.7.conv1.weight", (1,), "must be a ResNet of 18, 34, 50, 101, 152"),
    ],
)
def test_tensors_that_disagree_are_refused_before_anything_is_built(name, shape, message):
    weights = theirs.Model("resnet18", 8, 6, 11).state_dict()
    weights[name] = torch.empty(shape, device="meta")
    with pytest.raises(FormatError, match=message):
        infer_sizes(weights, "x.pth")
    with pytest.raises(FormatError, match="must be a matrix, got nothing"):
        infer_sizes({}, "x.pth")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (BIAS, torch.ones(8).to_sparse(), "must be a dense tensor, got torch.sparse_coo"),
        (BIAS, torch.ones(8, device="meta"), "must be a dense tensor, got .* on meta"),
        (BIAS, torch.ones(1).expand(8), r"must be a dense tensor, got \[8\] from fewer numbers"),
        (BIAS, torch.ones(8, dtype=torch.complex64), "must have floating-point numbers, got torch.complex64"),
        (BIAS, torch.ones(8, dtype=torch.int64), "must have floating-point numbers, got torch.int64"),
        (BIAS, torch.full((8,), torch.nan), "must be finite"),
        (BIAS, torch.full((8,), 1e300, dtype=torch.float64), "must be finite"),
        (COUNTER, torch.tensor(7.0), "must be a whole number, got torch.float32"),
    ],
)
def test_a_tensor_that_cannot_be_a_weight_is_named(name, value, message):
    with pytest.raises(FormatError, match=f"x.pth: {name} {message}"):
        require_usable({name: value}, "x.pth")
    require_usable({BIAS: torch.ones(8), COUNTER: torch.tensor(7)}, "x.pth")
