"""One small index that all tests ask and none changes, and copies of it to be changed."""

import json
import shutil

import pytest

from pcme import SearchIndex
from pcme.serve.app import Setup, create_app
from pcme.serve.limits import Limits
from pcme.serve.service import Service
from tests.helpers import picture
from tests.index.worlds import untrained
from tests.serve.asking import TOKEN, Client

HOSTILE = "<script>alert(1)</script>\"'&"
COUNT = 12


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A folder with a model, twelve photographs, and an index of them and of three captions."""
    folder = tmp_path_factory.mktemp("serve")
    untrained().save(folder / "model")
    for number in range(COUNT):
        picture(folder / "photos" / f"{number:02d}.png", colour=(20 * number, 90, 250 - 20 * number), size=(48, 36))
    index = SearchIndex.create(folder / "index", folder / "model")
    index.add(folder / "photos", {"year": list(range(2000, 2000 + COUNT)), "note": [HOSTILE] * COUNT})
    index.add(["a red bird", "a blue bird", "sky and water"], kind="caption")
    return folder


@pytest.fixture(scope="session")
def index(world):
    """The index, as Python asks it."""
    return SearchIndex.open(world / "index")


@pytest.fixture(scope="session")
def shared(world):
    """A service that no test blocks or closes."""
    service = Service(SearchIndex.open(world / "index"))
    yield service
    service.close()


@pytest.fixture(scope="session")
def client(shared, world):
    """A client of a server that shows pictures and changes nothing."""
    return Client(create_app(shared, Setup(images=world / "photos")))


@pytest.fixture
def serving(world):
    """Makes (service, client) of the index with other limits; nothing is changed."""
    made = []

    def make(**limits):
        made.append(Service(SearchIndex.open(world / "index"), Limits(**limits)))
        return made[-1], Client(create_app(made[-1], Setup(images=world / "photos")))

    yield make
    for service in made:
        service.close()


@pytest.fixture
def changing(world, tmp_path):
    """(service, client with the token) of a copy of the index."""
    shutil.copytree(world / "index", tmp_path / "index")
    service = Service(SearchIndex.open(tmp_path / "index"))
    yield service, Client(create_app(service, Setup(token=TOKEN)), token=TOKEN)
    service.close()


@pytest.fixture(scope="session")
def plain():
    """A record as JSON gives it back."""
    return lambda record: json.loads(json.dumps(record))
