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


def test_names_are_canonical_and_sorted(animals):
    assert animals.names() == ["cod", "swift"]


def test_aliases_are_sorted_and_lead_to_the_name(animals):
    assert list(animals.aliases().items()) == [("apus", "swift"), ("martin", "swift")]


def test_the_answers_are_copies(animals):
    animals.names().clear()
    animals.aliases().clear()
    assert animals.names() == ["cod", "swift"]
    assert animals.get("apus") is Bird


def test_the_decorator_returns_the_class_itself(animals):
    assert animals.register("crow")(Bird) is Bird


@pytest.mark.parametrize("name", ["swift", "martin", "apus"])
def test_get_and_create_take_names_and_aliases(animals, name):
    assert animals.get(name) is Bird
    assert animals.create(name, wings=4) == Bird(wings=4)


@pytest.mark.parametrize("name", ["swift", "martin"])
@pytest.mark.parametrize("aliases", [(), ("new",)])
def test_a_taken_name_raises_and_files_nothing(animals, name, aliases):
    with pytest.raises(ConfigError, match=rf'animal "{name}" is already registered, by Bird'):
        animals.register(name, aliases=aliases)(Fish)
    assert animals.get(name) is Bird
    assert "new" not in animals.aliases()


@pytest.mark.parametrize("alias", ["cod", "martin", "gull"])
def test_a_taken_alias_raises_and_files_nothing(animals, alias):
    with pytest.raises(ConfigError, match=rf'animal "{alias}" is already registered'):
        animals.register("gull", aliases=[alias])(Fish)
    assert animals.names() == ["cod", "swift"]


@pytest.mark.parametrize(
    ("given", "near"), [("swfit", "swift"), ("Swift", "swift"), ("COD", "cod"), ("marten", "martin")]
)
def test_an_unknown_name_suggests_the_nearest_and_lists_all(animals, given, near):
    with pytest.raises(ConfigError) as caught:
        animals.get(given)
    assert str(caught.value) == (f'unknown animal "{given}". Did you mean "{near}"? Known animals: cod, swift.')


def test_a_far_name_gets_no_suggestion(animals):
    with pytest.raises(ConfigError) as caught:
        animals.create("zzzzzz")
    assert str(caught.value) == 'unknown animal "zzzzzz". Known animals: cod, swift.'


def test_an_empty_registry_says_so():
    with pytest.raises(ConfigError, match=r"Known animals: none\.$"):
        Registry[object]("animal").get("cod")


def test_an_unknown_field_suggests_the_nearest_and_lists_all(animals):
    with pytest.raises(ConfigError) as caught:
        animals.create("swift", wing=3)
    assert str(caught.value) == (
        '"wing" is not a field of animal "swift". Did you mean "wings"? Fields: wings, song, colours.'
    )


def test_a_field_the_constructor_does_not_take_is_not_a_field(animals):
    with pytest.raises(ConfigError, match='"weight" is not a field of animal "swift"'):
        animals.create("swift", weight=3.0)


def test_a_class_without_fields_says_so(animals):
    @animals.register("stone")
    @dataclass(frozen=True)
    class Stone:
        pass

    with pytest.raises(ConfigError, match=r'"size" is not a field .* It has no fields\.$'):
        animals.create("stone", size=1)
    assert animals.create("stone") == Stone()


def test_a_missing_field_is_named(animals):
    with pytest.raises(ConfigError, match=r'^animal "cod" needs fins\. Fields: fins\.$'):
        animals.create("cod")


def test_errors_about_values_are_the_classes_own(animals):
    with pytest.raises(ValueError, match="must not be negative"):
        animals.create("swift", wings=-1)


def test_the_summary_is_the_first_line_of_the_docstring(animals):
    assert animals.summary("apus") == "Something that flies."


def test_kinds_have_their_plural():
    with pytest.raises(ConfigError, match=r"Known analyses: none"):
        Registry("analysis").get("bins")
    with pytest.raises(ConfigError, match=r"Known scores: none"):
        Registry("score").get("csd")
