"""Whom the server answers, and what a browser may do with its answers."""

import pytest

from pcme.errors import ConfigError
from pcme.serve.app import Setup, create_app
from pcme.serve.security import read_token
from pcme.serve.server import Address, require_guarded
from tests.serve.asking import Client, problem

LOCAL = ("127.0.0.1", "127.0.0.1:8000", "localhost:1", "LOCALHOST", "[::1]:8000", "127.9.9.9")
FOREIGN = ("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1", "a b")
NETWORK = ("192.168.1.5:8000", "[fe80::1]:8000", "8.8.8.8")


def status(client, host):
    return client.get("/healthz", headers={"Host": host}).status_code


def test_only_names_of_this_machine_are_answered(shared):
    client = Client(create_app(shared))
    assert {host: status(client, host) for host in LOCAL} == dict.fromkeys(LOCAL, 200)
    assert {host: status(client, host) for host in (*FOREIGN, *NETWORK)} == dict.fromkeys((*FOREIGN, *NETWORK), 400)
    assert "Host: unknown, got 'evil.example'" in problem(client.get("/", headers={"Host": "evil.example"}))[1]


def test_a_server_of_the_network_answers_to_addresses_and_to_names_it_was_given(shared):
    client = Client(create_app(shared, Setup(names=["Birds.example"], any_address=True)))
    known = (*LOCAL, *NETWORK, "birds.example", "BIRDS.example:8000")
    assert {host: status(client, host) for host in known} == dict.fromkeys(known, 200)
    assert {host: status(client, host) for host in FOREIGN} == dict.fromkeys(FOREIGN, 400)


@pytest.mark.parametrize(
    ("address", "expected"),
    [("/", 200), ("/v1/search?q=a+red+bird", 200), ("/v1/search", 422), ("/nowhere", 404), ("/v1/items/nobody", 404)],
)
def test_every_answer_has_the_headers(client, address, expected):
    answer = client.get(address)
    assert answer.status_code == expected
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "cache-control" in answer.headers


def test_a_refused_host_gets_the_headers_too(client):
    assert "content-security-policy" in client.get("/", headers={"Host": "evil.example"}).headers


def test_no_other_site_may_read_an_answer_or_ask_for_a_change(client):
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for answer in (
        client.get("/v1/search?q=a+red+bird", headers=headers),
        client.request("OPTIONS", "/v1/items", headers=headers),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control")]
    for origin, expected in (("http://evil.example", 403), ("null", 403), ("http://127.0.0.1:8000", 200)):
        answer = client.post("/v1/search", json={"q": "a red bird"}, headers={"Origin": origin})
        assert answer.status_code == expected


def test_an_unknown_address_or_method_is_a_problem(client):
    assert problem(client.get("/v1/nowhere"))[0] == 404
    answer = client.request("PUT", "/v1/search")
    assert problem(answer)[0] == 405
    assert answer.headers["allow"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "birds.example"])
def test_the_network_needs_a_token_or_an_explicit_word(host):
    with pytest.raises(ConfigError, match="--public"):
        require_guarded(Address(host), None)
    require_guarded(Address(host), "token")
    require_guarded(Address(host, public=True), None)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_needs_none(host):
    require_guarded(Address(host), None)


def test_a_token_is_one_word_in_a_file(tmp_path):
    file = tmp_path / "token"
    file.write_text(" a-secret \n")
    assert read_token(file) == "a-secret"
    for wrong in ("", " \n", "two words", "é", "a\nb"):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match="one word of ASCII"):
            read_token(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(tmp_path / "none")
    assert "a-secret" not in repr(Setup(token="a-secret"))
