"""PostgreSQL URLs: which are wrong by themselves, and that none is ever shown with its password."""

from __future__ import annotations

import pytest

from stepfast.kernel.errors import Invalid
from stepfast.settings import Found, read_settings
from stepfast.stores.postgres.store import PostgresStore
from stepfast.stores.postgres_urls import WrongAddress, check_address, without_password

GOOD = (
    "postgresql://host/db",
    "postgres://me@host",
    "postgresql:///db?host=/var/run/socket",
    "postgresql://%2Fvar%2Frun:5432/db",
    "postgresql://me:s%40cr%2Fet@host:5432/db",
    "postgresql://one:5432,two:5433/db?target_session_attrs=primary",
    "postgresql://me:secret@[::1]:5432,host/db",
    "postgresql:///db?host=one,two&port=1,2",
    "postgresql://host/db?user=me@cloud&password=a@b",
    "postgresql://host/db?application_name=a%20shop&search_path=",
    "postgresql://host/db?application_name=me%40shop&search_path=a%40b",
    "postgresql://host/db?application_name=me@shop&passfile=/files/me@shop/.pgpass",
    "postgresql://host/db?sslmode=verify-full&sslrootcert=/etc/ca@2024.pem&sslkey=%40key",
    "postgresql:///db?host=/run/me@shop,/run/postgresql",
    "postgresql:///db?host=%40abstract",
    "postgresql://me:secret@[fe80::1%eth0]:5432/db",
    "postgresql://me:secret@[fe80::1%25eth0],host/db",
    "postgresql://me:s%C3%A9cret@host/db",
)
# Each with the word that says what is wrong.
WRONG = {
    "postgresql://me:sec/ret@host/db": "@",
    "postgresql://me:sec@ret@host/db": "@",
    "postgresql://me:12/ret@host/db": "@",
    "postgresql://me:sec@r/et@host/db": "@",
    "postgresql://me:12?sec=ret@host/db": "@",
    "postgresql://me:sec@r?et@host/db": "?",
    "postgresql://me:sec?ret@host/db": "?",
    "postgresql://me:sec#ret@host/db": "#",
    "postgresql://me:sec[ret@host/db": "apart",
    "postgresql://me:secret@[::1/db": "apart",
    "postgresql://me:sec%ret@host/db": "%",
    "postgresql://me:secret%@host/db": "%",
    "postgresql://me:sec%00ret@host/db": "%",
    "postgresql://me:sec%ffret@host/db": "UTF-8",
    "postgresql://me:secret@host/db?application_name=%E9": "UTF-8",
    "postgresql://me:sec%zz[::1]ret@host/db": "%",
    "postgresql://me:secret@[fe80::1%00]/db": "%",
    "postgresql://me:?secret@host:5432/db?application_name=x": "@",
    "postgresql://me:12/?secret@/db?host=/run": "@",
    "postgresql://me:secret@host/db?search_path=a@b": "@",
    "postgresql:///db?host=one,me:secret@two": "@",
    "postgresql://me:secret@host/d%b": "%",
    "postgresql://me:secret@host:0/db": "port",
    "postgresql://me:secret@host:99999/db": "port",
    "postgresql://me:secret@host:5432x/db": "port",
    "postgresql://me:secret@one:1,two:b/db": "port",
    "postgresql://me:secret@one,,two/db": "host",
    "postgresql://me:secret@host/db?port=many": "port",
    "postgresql://me:secret": "port",
    "postgresql://host/db?sslmode": "?",
    "postgresql://host/db?user=me&password=sec&ret": "?",
}


@pytest.mark.parametrize("url", GOOD)
def test_a_url_that_says_clearly_what_it_means_is_taken(url):
    check_address(url)


@pytest.mark.parametrize(("url", "word"), WRONG.items(), ids=WRONG)
def test_a_wrong_url_is_refused_with_its_fault_and_what_to_write(url, word):
    with pytest.raises(WrongAddress, match="write @ as %40") as refused:
        check_address(url)
    fault = str(refused.value).partition(" In a user")[0]
    assert (word in fault, "ret" in fault) == (True, False)


@pytest.mark.parametrize("url", WRONG)
@pytest.mark.parametrize("name", ["STEPFAST_DATABASE_URL", "STEPFAST_DATABASE_DIRECT_URL"])
def test_a_wrong_url_is_a_setting_that_does_not_fit_and_is_shown_without_its_password(name, url):
    with pytest.raises(Invalid, match=f"^{name} is '.*'; allowed is .* As a database URL it is wrong: ") as refused:
        read_settings({name: Found(url, name)})
    shown = str(refused.value).partition("allowed")[0]
    assert [part for part in ("sec", "ret", "12") if part in shown] == []


SHOWN = {
    "postgresql://me:secret@host/db": "postgresql://me:***@host/db",
    "postgresql://me@host/db?password=sec/ret&sslmode=require": "postgresql://me@host/db?password=***&sslmode=require",
    "postgresql://host:5432/db?user=me@cloud": "postgresql://host:5432/db?user=me@cloud",
    "postgresql://me:a:b@host/db": "postgresql://me:***@host/db",
    "postgresql://host:99999/db": "postgresql://host:99999/db",
    "postgresql:///db?host=/run/postgresql": "postgresql:///db?host=/run/postgresql",
    "postgresql:///db": "postgresql:///db",
    "postgresql://me:secret@/db": "postgresql://me:***@/db",
    "POSTGRES://me:secret@host/db": "postgres://me:***@host/db",
    "postgresql://host/db?password=sec ret&sslmode=require": "postgresql://host/db?password=***&sslmode=require",
    "postgresql://host/db?%70assword=secret": "postgresql://host/db?%70assword=***",
    "postgresql://host/db?sslpassword=secret": "postgresql://host/db?sslpassword=***",
    "postgresql://me:secret@host/db?application_name=a@b": "postgresql://me:***@host/db?application_name=a@b",
    " postgresql://me:sec@ret@host/db": " postgresql://me:***@host/db",
    "postgresql+asyncpg://me@host/db": "postgresql+asyncpg://me@host/db",
    "postgresql:me:sec:r@et@host": "postgresql:***@host",
    "postgresql:/me:/secret@host": "postgresql:***@host",
    "postgres:sec://ret@host": "postgres:***@host",
    "host=db password=sec&ret user=me": "host=db password=***",
    "host=db password='a b' user=me": "host=db password=***",
    "host=db password = secret": "host=db password = ***",
    "me:secret@host:5432/db": "me:***@host:5432/db",
    "mysql://me:sec/r@et@host/db": "mysql://me:***@host/db",
    "sqlite:///folder/a.db": "sqlite:///folder/a.db",
    "postgresql://me:sec@host/db?password=a@ret#": "postgresql://me:***@host/db?password=***",
    "jdbc:postgresql://host/db?user=me&password=sec@ret": "jdbc:postgresql://host/db?user=me&password=***",
}


@pytest.mark.parametrize(("url", "shown"), SHOWN.items(), ids=SHOWN)
def test_a_url_is_shown_without_its_password(url, shown):
    assert without_password(url) == shown


@pytest.mark.parametrize("url", [url for url in GOOD if "password=" not in url and ":s" not in url])
def test_a_url_without_a_password_is_shown_as_it_is(url):
    assert without_password(url) == url


OPTIONS = {
    "that no server has": ("nonsense=1", 'unrecognized configuration parameter "nonsense"'),
    "that has no such value": ("statement_timeout=soon", "statement_timeout"),
    "that no session may set": ("max_connections=5", "max_connections"),
    "that the driver does not know like that": ("sslmode=maybe", "sslmode"),
}


@pytest.mark.parametrize(("option", "named"), OPTIONS.values(), ids=OPTIONS)
async def test_an_option_in_the_url_that_cannot_be_is_a_mistake_and_no_outage(postgres_url, option, named):
    store = PostgresStore(f"{postgres_url}{'&' if '?' in postgres_url else '?'}{option}")
    with pytest.raises(Invalid, match="Correct the options behind the") as refused:
        await store.open()
    assert named in str(refused.value)
