"""Indexes of time series: the client's classes in C# and JavaScript, several maps, a reduce."""

from datetime import datetime, timedelta

import pytest
from ravendb import IndexSourceType
from ravendb.documents.indexes.time_series import (
    AbstractJavaScriptTimeSeriesIndexCreationTask,
    AbstractMultiMapTimeSeriesIndexCreationTask,
    AbstractTimeSeriesIndexCreationTask,
)
from ravendb.documents.operations.indexes import GetIndexOperation

from entities import City, Country, save

NOON = datetime(2020, 1, 1, 12)


class CitiesBySnow(AbstractTimeSeriesIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.map = (
            "from series in timeSeries.Cities.Snow from entry in series.Entries "
            'let country = LoadDocument(entry.Tag, "Countries") select new { city = series.DocumentId, '
            "snow = entry.Value, hour = entry.Timestamp.Hour, country = country.name }"
        )


class CitiesBySnowScript(AbstractJavaScriptTimeSeriesIndexCreationTask):
    def __init__(self):
        super().__init__()
        self.maps = {
            "timeSeries.map('Cities', 'Snow', series => series.Entries.map(entry => ({ "
            "city: series.DocumentId, snow: entry.Value, hour: entry.Timestamp.getUTCHours(), "
            "country: load(entry.Tag, 'Countries').name })))"
        }


class Weather(AbstractMultiMapTimeSeriesIndexCreationTask):
    def __init__(self):
        super().__init__()
        for name in ["Snow", "Rain"]:
            self._add_map(
                f"timeSeries.Cities.{name}.SelectMany(series => series.Entries, (series, entry) => "
                f'new {{ kind = "{name}", count = 1, most = entry.Value }})'
            )
        self._reduce = (
            "from r in results group r by r.kind into g select new { kind = g.Key, "
            "count = g.Sum(x => x.count), most = g.Max(x => x.most) }"
        )


class Row:
    def __init__(self, city=None, snow=None, hour=None, country=None, kind=None, count=None, most=None):
        self.city, self.snow, self.hour, self.country = city, snow, hour, country
        self.kind, self.count, self.most = kind, count, most


@pytest.fixture(scope="module")
def cities(store):
    save(store, {"cities/1": City("Chur", 1), "cities/2": City("Arosa", 2), "countries/1": Country("Schweiz")})
    append(store, "cities/1", "Snow", {0: 5, 2: 7}, "countries/1")
    append(store, "cities/2", "snow", {1: 120}, None)
    append(store, "cities/2", "Rain", {1: 3}, None)
    for index in [CitiesBySnow(), CitiesBySnowScript(), Weather()]:
        index.execute(store)
    return store


def append(store, key, name, values, tag):
    with store.open_session() as session:
        series = session.time_series_for(key, name)
        for hour, value in values.items():
            series.append_single(NOON + timedelta(hours=hour), value, tag)
        session.save_changes()


def rows_of(store, index):
    with store.open_session() as session:
        rows = session.query_index_type(index, Row).wait_for_non_stale_results()
        return sorted((row.city, row.hour, row.snow, row.country) for row in rows)


@pytest.mark.parametrize("index, hour", [(CitiesBySnow, 15), (CitiesBySnowScript, 16)])
def test_an_index_contains_the_entries_and_is_updated_with_them(cities, index, hour):
    first = [("cities/1", 12, 5, "Schweiz"), ("cities/1", 14, 7, "Schweiz"), ("cities/2", 13, 120, None)]
    assert rows_of(cities, index) == first
    definition = cities.maintenance.send(GetIndexOperation(index().index_name))
    assert definition.source_type == IndexSourceType.TIME_SERIES
    append(cities, "cities/1", "Snow", {hour - 12: 1}, None)
    assert rows_of(cities, index) == sorted(first + [("cities/1", hour, 1, None)], key=lambda row: row[:2])
    with cities.open_session() as session:
        moment = NOON + timedelta(hours=hour - 12)
        session.time_series_for("cities/1", "Snow").delete(moment, moment)
        session.save_changes()
    assert rows_of(cities, index) == first


def test_series_are_reduced(cities):
    with cities.open_session() as session:
        rows = session.query_index_type(Weather, Row).wait_for_non_stale_results()
        assert sorted((row.kind, row.count, row.most) for row in rows) == [("Rain", 1, 3), ("Snow", 3, 120)]
