"""Registry: finding, creating, and the messages when a name is wrong."""

from dataclasses import dataclass, field

import pytest

from pcme.core.registry import Registry
from pcme.errors import ConfigError


@dataclass(frozen=True)
class Bird:
    """Something that flies.

    A second paragraph, which is no part of the summary.
    """

    wings: int = 2
    song: str = "tweet"
    colours: list[str] = field(default_factory=list)
    weight: float = field(init=False, default=1.0)

    def __post_init__(self):
        if self.wings < 0:
            raise ValueError("wings must not be negative")


@dataclass(frozen=True)
class Fish:
    fins: int


@pytest.fixture
def animals() -> Registry[object]:
    registry: Registry[object] = Registry("animal")
    registry.register("swift", aliases=("martin", "apus"))(Bird)
    registry.register("cod")(Fish)
    return registry


def test_names_are_canonical_aliases_lead_to_them_and_both_are_copies(animals):
    animals.names().clear()
    animals.aliases().clear()
    assert animals.names() == ["cod", "swift"]
    assert list(animals.aliases().items()) == [("apus", "swift"), ("martin", "swift")]
    assert animals.register("crow")(Bird) is Bird


@pytest.mark.parametrize("name", ["swift", "martin", "apus"])
def test_get_and_create_take_names_and_aliases(animals, name):
    assert animals.get(name) is Bird
    assert animals.create(name, wings=4) == Bird(wings=4)
    assert animals.summary(name) == "Something that flies."


@pytest.mark.parametrize(
    ("name", "aliases", "taken"),
    [
        *((name, aliases, name) for name in ("swift", "martin") for aliases in ((), ("new",))),
        *(("gull", (alias,), alias) for alias in ("cod", "martin", "gull")),
    ],
)
def test_a_taken_name_or_alias_raises_and_files_nothing(animals, name, aliases, taken):
    owner = {"cod": "Fish", "gull": "this class"}.get(taken, "Bird")
    with pytest.raises(ConfigError, match=rf'animal "{taken}" is already registered, by {owner}'):
        animals.register(name, aliases=aliases)(Fish)
    assert animals.names() == ["cod", "swift"]
    assert animals.get("martin") is Bird
    assert "new" not in animals.aliases()


@pytest.mark.parametrize(
    ("name", "hint"),
    [*(("swfit", "swift"), ("Swift", "swift"), ("COD", "cod"), ("marten", "martin")), ("zzzzzz", None)],
)
def test_an_unknown_name_suggests_the_nearest_and_lists_all(animals, name, hint):
    with pytest.raises(ConfigError) as caught:
        animals.create(name)
    suggestion = f' Did you mean "{hint}"?' if hint else ""
    assert str(caught.value) == f'unknown animal "{name}".{suggestion} Known animals: cod, swift.'
    with pytest.raises(ConfigError, match=r"Known analyses: none\.$"):
        Registry[object]("analysis").get("bins")


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("swift", {"wing": 3}, '"wing" NO "swift". Did you mean "wings"? Fields: wings, song, colours.'),
        ("swift", {"weight": 3.0}, '"weight" NO "swift". Fields: wings, song, colours.'),
        ("stone", {"size": 1}, '"size" NO "stone". It has no fields.'),
        ("cod", {}, 'animal "cod" needs fins. Fields: fins.'),
    ],
)
def test_a_wrong_or_missing_field_is_named_with_all_and_a_wrong_value_by_its_class(animals, name, fields, message):
    @animals.register("stone")
    @dataclass(frozen=True)
    class Stone:
        pass

    assert animals.create("stone") == Stone()
    with pytest.raises(ConfigError) as caught:
        animals.create(name, **fields)
    assert str(caught.value) == message.replace("NO", "is not a field of animal")
    with pytest.raises(ValueError, match="must not be negative"):
        animals.create("swift", wings=-1)
