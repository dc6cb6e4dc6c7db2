"""Sessions: store, load, change, delete, metadata, refresh, evict, exists, conditional load."""

from datetime import datetime, timedelta, timezone

import pytest
from ravendb.documents.operations.statistics import GetCollectionStatisticsOperation

from entities import City, Holder, change_vector, load, remove, save


def test_a_stored_document_is_loaded_in_another_session(store):
    save(store, {"cities/ulm": City("Ulm", 126790, twins=["cities/a"])})
    city = load(store, "cities/ulm", City)
    assert (city.name, city.population, city.twins) == ("Ulm", 126790, ["cities/a"])


def test_a_change_is_saved_and_only_the_changed_document_is_sent(store):
    save(store, {"change/1": Holder(1), "change/2": Holder(1)})
    untouched = change_vector(store, "change/2")
    with store.open_session() as session:
        session.load("change/2", Holder)
        session.load("change/1", Holder).value = 2
        session.save_changes()
    assert load(store, "change/1", Holder).value == 2
    assert change_vector(store, "change/2") == untouched


def test_documents_are_deleted_by_entity_and_by_id(store):
    save(store, {"gone/1": Holder(1), "gone/2": Holder(2)})
    with store.open_session() as session:
        session.delete(session.load("gone/1", Holder))
        session.delete("gone/2")
        session.delete("gone/never-there")
        session.save_changes()
    assert load(store, "gone/1", Holder) is None
    assert load(store, "gone/2", Holder) is None


def test_a_document_stored_again_after_its_deletion_has_only_new_content(store):
    save(store, {"again/1": City("old", 1)})
    remove(store, "again/1")
    save(store, {"again/1": Holder("new")})
    with store.open_session() as session:
        holder = session.load("again/1", Holder)
        assert holder.value == "new"
        assert session.advanced.get_metadata_for(holder)["@collection"] == "Holders"


def test_metadata_contains_collection_id_and_custom_keys(store):
    with store.open_session() as session:
        holder = Holder(1)
        session.store(holder, "meta/1")
        metadata = session.advanced.get_metadata_for(holder)
        metadata["Reviewed-By"] = "Käthe"
        metadata["Tags"] = ["a", "b"]
        session.save_changes()
    with store.open_session() as session:
        holder = session.load("meta/1", Holder)
        metadata = session.advanced.get_metadata_for(holder)
        assert metadata["@id"] == "meta/1"
        assert metadata["@collection"] == "Holders"
        assert metadata["Reviewed-By"] == "Käthe"
        assert list(metadata["Tags"]) == ["a", "b"]
        assert metadata["@change-vector"] == session.advanced.get_change_vector_for(holder)


def test_last_modified_is_now(store):
    save(store, {"time/1": Holder(1)})
    with store.open_session() as session:
        modified = session.advanced.get_last_modified_for(session.load("time/1", Holder))
    modified = modified if modified.tzinfo else modified.replace(tzinfo=timezone.utc)
    assert abs(datetime.now(timezone.utc) - modified) < timedelta(minutes=1)


def test_every_save_creates_a_new_change_vector(store):
    seen = []
    for value in range(5):
        save(store, {"vector/1": Holder(value)})
        seen.append(change_vector(store, "vector/1"))
    assert len(set(seen)) == 5
    etags = [int(vector.split(":")[1].split("-")[0]) for vector in seen]
    assert etags == sorted(etags)


def test_exists_distinguishes_stored_and_missing_documents(store):
    save(store, {"exists/1": Holder(1)})
    with store.open_session() as session:
        assert session.advanced.exists("exists/1")
        assert session.advanced.exists("EXISTS/1")
        assert not session.advanced.exists("exists/2")


def test_refresh_fetches_and_evict_removes_from_the_session(store):
    save(store, {"refresh/1": Holder(1)})
    with store.open_session() as session:
        holder = session.load("refresh/1", Holder)
        save(store, {"refresh/1": Holder(2)})
        assert holder.value == 1
        session.advanced.refresh(holder)
        assert holder.value == 2
        save(store, {"refresh/1": Holder(3)})
        session.advanced.evict(holder)
        assert session.load("refresh/1", Holder).value == 3


def test_a_conditional_load_returns_a_document_only_after_a_change(store):
    save(store, {"conditional/1": Holder(1)})
    known = change_vector(store, "conditional/1")

    def conditional(key):
        with store.open_session() as session:
            return session.advanced.conditional_load(key, known, Holder)

    assert conditional("conditional/1").entity is None
    assert conditional("conditional/1").change_vector == known
    save(store, {"conditional/1": Holder(2)})
    assert conditional("conditional/1").entity.value == 2
    assert conditional("conditional/missing").change_vector is None


def test_ids_ignore_case_and_keep_their_first_spelling(store):
    save(store, {"Mixed/Case-Ä": Holder(1)})
    with store.open_session() as session:
        holder = session.load("mixed/CASE-ä", Holder)
        assert holder.value == 1
        assert session.advanced.get_metadata_for(holder)["@id"] == "Mixed/Case-Ä"
    remove(store, "MIXED/CASE-Ä")
    assert load(store, "Mixed/Case-Ä", Holder) is None


@pytest.mark.parametrize(
    "key", ["a b/c d", "percent/100%25", "plus+and&and=and?", "emoji/🏔️/日本", "quote/\"'"]
)
def test_unusual_ids_survive_the_url(store, key):
    save(store, {key: Holder(key)})
    assert load(store, key, Holder).value == key


def test_an_id_over_512_bytes_is_refused(store):
    save(store, {"l" * 512: Holder(1)})
    with pytest.raises(Exception, match="512"):
        save(store, {"l" * 513: Holder(2)})


def test_hilo_ids_ascend_and_server_ids_are_completed(store):
    with store.open_session() as session:
        cities = [City(f"city {i}") for i in range(70)]
        for city in cities:
            session.store(city)
        keys = [session.advanced.get_document_id(city) for city in cities]
        session.save_changes()
    assert all(key.startswith("cities/") and key.endswith("-A") for key in keys)
    numbers = [int(key[len("cities/") : -len("-A")]) for key in keys]
    assert numbers == sorted(set(numbers))
    with store.open_session() as session:
        tickets = [Holder(i) for i in range(3)]
        for ticket in tickets:
            session.store(ticket, "tickets/")
        session.save_changes()
        keys = [session.advanced.get_document_id(ticket) for ticket in tickets]
    assert len(set(keys)) == 3
    assert keys == sorted(keys)
    assert load(store, keys[1], Holder).value == 1


def test_collection_statistics_change_with_puts_and_deletes(store):
    def rivers():
        statistics = store.maintenance.send(GetCollectionStatisticsOperation())
        return statistics.collections.get("Rivers", 0)

    class River:
        def __init__(self, name=None):
            self.name = name

    save(store, {f"rivers/{i}": River(str(i)) for i in range(3)})
    assert rivers() == 3
    remove(store, "rivers/1")
    assert rivers() == 2
