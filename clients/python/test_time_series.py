"""Time series: written by sessions, operations, scripts and bulk inserts, read by range and name, aggregated;
policies."""

import os
import time
from datetime import datetime, timedelta
from typing import Dict, Optional, Tuple

import pytest
from ravendb.documents.operations.patch import PatchOperation, PatchRequest
from ravendb.documents.operations.time_series import (
    ConfigureTimeSeriesOperation,
    ConfigureTimeSeriesValueNamesOperation,
    GetMultipleTimeSeriesOperation,
    GetTimeSeriesOperation,
    GetTimeSeriesStatisticsOperation,
    RawTimeSeriesPolicy,
    TimeSeriesBatchOperation,
    TimeSeriesCollectionConfiguration,
    TimeSeriesConfiguration,
    TimeSeriesOperation,
    TimeSeriesPolicy,
)
from ravendb.documents.queries.time_series import TimeSeriesAggregationResult, TimeSeriesRawResult
from ravendb.documents.session.time_series import ITimeSeriesValuesBindable, TimeSeriesRange
from ravendb.exceptions.raven_exceptions import RavenException
from ravendb.primitives.time_series import TimeValue

from entities import City, save

NOON = datetime(2020, 1, 1, 12)


def at(minute):
    return NOON + timedelta(minutes=minute)


def append(store, key, name, minutes, tag=None):
    with store.open_session() as session:
        series = session.time_series_for(key, name)
        for minute in minutes:
            series.append(at(minute), [minute, minute / 4], tag)
        session.save_changes()


def minutes_of(entries):
    return [int((entry.timestamp - NOON).total_seconds() // 60) for entry in entries]


def test_entries_are_appended_replaced_and_deleted(store):
    save(store, {"cities/1": City("Chur", 1)})
    append(store, "cities/1", "Snow", [0, 1, 2, 3], "guides/1")
    with store.open_session() as session:
        session.time_series_for("cities/1", "snow").append_single(at(1), 7.5)
        session.time_series_for("cities/1", "snow").delete(at(2), at(3))
        session.save_changes()
    with store.open_session() as session:
        entries = session.time_series_for("cities/1", "Snow").get()
        assert [(entry.values, entry.tag) for entry in entries] == [([0, 0], "guides/1"), ([7.5], None)]
        city = session.load("cities/1", City)
        assert session.advanced.get_time_series_for(city) == ["Snow"]


def test_ranges_and_pages_are_read(store):
    save(store, {"cities/2": City("Thun", 1)})
    append(store, "cities/2", "Snow", range(30))
    with store.open_session() as session:
        series = session.time_series_for("cities/2", "Snow")
        assert minutes_of(series.get(at(5), at(7))) == [5, 6, 7]
    with store.open_session() as session:
        series = session.time_series_for("cities/2", "Snow")
        assert minutes_of(series.get(None, None, 10, 3)) == [10, 11, 12]
    assert store.operations.send(GetTimeSeriesOperation("cities/2", "Snow")).total_results == 30
    ranges = [TimeSeriesRange("Snow", at(1), at(2)), TimeSeriesRange("Snow", at(10), at(10))]
    several = store.operations.send(GetMultipleTimeSeriesOperation("cities/2", ranges))
    assert [minutes_of(part.entries) for part in several.values["Snow"]] == [[1, 2], [10]]


def test_changes_of_a_series_can_be_in_any_order(store):
    save(store, {"cities/3": City("Bern", 1)})
    operation = TimeSeriesOperation("Wind")
    for minute in [4, 0, 3, 1, 2]:
        operation.append(TimeSeriesOperation.AppendOperation(at(minute), [minute], "guides/2"))
    store.operations.send(TimeSeriesBatchOperation("cities/3", operation))
    statistics = store.operations.send(GetTimeSeriesStatisticsOperation("cities/3"))
    [wind] = statistics.time_series
    assert (wind.name, wind.number_of_entries) == ("Wind", 5)
    assert (wind.start_date, wind.end_date) == (at(0), at(4))
    with pytest.raises(RavenException):
        store.operations.send(TimeSeriesBatchOperation("cities/none", operation))


def test_a_session_includes_ranges(store):
    save(store, {"cities/4": City("Genf", 1)})
    append(store, "cities/4", "Snow", range(10))
    with store.open_session() as session:
        include = lambda builder: builder.include_time_series("Snow", at(2), at(4))
        session.load("cities/4", City, include)
        assert minutes_of(session.time_series_for("cities/4", "Snow").get(at(2), at(4))) == [2, 3, 4]
        assert session.advanced.number_of_requests == 1


def test_bulk_inserts_fill_series(store):
    save(store, {"cities/5": City("Zug", 1)})
    with store.bulk_insert() as bulk:
        with bulk.time_series_for("cities/5", "Long") as series:
            for second in range(3000):
                series.append_single(NOON + timedelta(seconds=second), second / 8, "tag")
    found = store.operations.send(GetTimeSeriesOperation("cities/5", "Long"))
    assert found.total_results == 3000
    assert [entry.values for entry in found.entries[-2:]] == [[2998 / 8], [2999 / 8]]


def test_value_names_and_policies_are_configured(store):
    names = ConfigureTimeSeriesValueNamesOperation.Parameters("Cities", "Snow", ["Depth", "Fresh"], True)
    assert store.maintenance.send(ConfigureTimeSeriesValueNamesOperation(names)).raft_command_index > 0
    configuration = TimeSeriesConfiguration()
    configuration.collections = {"Cities": TimeSeriesCollectionConfiguration(disabled=True)}
    assert store.maintenance.send(ConfigureTimeSeriesOperation(configuration)).raft_command_index > 0


class Depth(ITimeSeriesValuesBindable):
    """The values measured in a place."""

    def __init__(self, depth: float = None, fresh: float = None):
        self.depth = depth
        self.fresh = fresh

    def get_time_series_mapping(self) -> Dict[int, Tuple[str, Optional[str]]]:
        return {0: ("depth", None), 1: ("fresh", None)}


def test_named_values_are_aggregated(store):
    store.time_series.register("Cities", "Depths", ["depth", "fresh"])
    save(store, {"cities/6": City("Visp", 1)})
    with store.open_session() as session:
        series = session.typed_time_series_for(Depth, "cities/6", "Depths")
        for minute in range(120):
            series.append_single(at(minute), Depth(float(minute), float(minute % 2)))
        session.save_changes()
    with store.open_session() as session:
        [entry] = session.typed_time_series_for(Depth, "cities/6", "Depths").get(at(7), at(7))
        assert (entry.value.depth, entry.value.fresh) == (7, 1)
        chosen = session.query(object_type=City).where_equals("id()", "cities/6")
        raw = chosen.select_time_series(
            TimeSeriesRawResult, lambda builder: builder.raw("from Depths where depth >= 100 and fresh = 1")
        ).first()
        assert (raw.count, minutes_of(raw.results)[:2]) == (10, [101, 103])
        chosen = session.query(object_type=City).where_equals("id()", "cities/6")
        text = "from Depths group by '1 hour' select min(), max(), avg(), sum()"
        hours = chosen.select_time_series(TimeSeriesAggregationResult, lambda builder: builder.raw(text)).first()
        assert (hours.count, len(hours.results)) == (120, 2)
        second = hours.results[1]
        assert (second.from_date, second.min, second.average) == (at(60), [60, 0], [89.5, 0.5])


@pytest.mark.skipif(os.environ.get("CORVUS_TEST_REFERENCE") == "1", reason="policies need a licence there")
def test_policies_create_rollups_and_delete_old_entries(store):
    configuration = TimeSeriesConfiguration()
    by_hour = TimeSeriesPolicy("ByHour", TimeValue.of_hours(1), TimeValue.of_years(100))
    raw = RawTimeSeriesPolicy(TimeValue.of_days(1))
    configuration.collections = {"Cities": TimeSeriesCollectionConfiguration(False, [by_hour], raw)}
    configuration.policy_check_frequency = timedelta(seconds=1)
    save(store, {"cities/7": City("Sion", 1)})
    append(store, "cities/7", "Snow", range(120))
    store.maintenance.send(ConfigureTimeSeriesOperation(configuration))
    while store.operations.send(GetTimeSeriesOperation("cities/7", "Snow")) is not None:
        time.sleep(0.1)
    with store.open_session() as session:
        hours = session.time_series_rollup_for(Depth, "cities/7", "ByHour", "Snow").get()
        assert [(hour.min.depth, hour.max.depth, hour.count.depth) for hour in hours] == [(0, 59, 60), (60, 119, 60)]
        totals = session.advanced.raw_query(
            "from Cities where id() = 'cities/7' select timeseries(from Snow group by 1d select sum(), count())",
            TimeSeriesAggregationResult,
        ).first()
        assert totals.results[0].sum == [7140, 1785]
    store.maintenance.send(ConfigureTimeSeriesOperation(TimeSeriesConfiguration()))


def test_queries_and_scripts_read_series(store):
    save(store, {"cities/8": City("Brig", 1)})
    append(store, "cities/8", "Snow", range(10), "guides/1")
    with store.open_session() as session:
        text = "from Cities where id() = 'cities/8' include timeseries('Snow', $from, $to)"
        query = session.advanced.raw_query(text, City)
        for name, minute in [("from", 2), ("to", 4)]:
            query.add_parameter(name, at(minute).isoformat() + ".0000000Z")
        list(query)
        assert minutes_of(session.time_series_for("cities/8", "Snow").get(at(2), at(4))) == [2, 3, 4]
        assert session.advanced.number_of_requests == 1
    script = "timeseries(this, 'Snow').append('2020-01-01T13:00:00.000Z', [5]);"
    store.operations.send(PatchOperation("cities/8", None, PatchRequest.for_script(script)))
    assert store.operations.send(GetTimeSeriesOperation("cities/8", "Snow")).total_results == 11
