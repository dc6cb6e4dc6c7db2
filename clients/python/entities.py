"""The entities that the tests store, and short ways to store and load them.

The client keeps entities in dictionaries, so they must be hashable: equality is identity.
"""

from dataclasses import dataclass, field
from typing import Any, List, Optional


@dataclass(eq=False)
class City:
    name: Optional[str] = None
    population: int = 0
    country: Optional[str] = None
    twins: List[str] = field(default_factory=list)


@dataclass(eq=False)
class Country:
    name: Optional[str] = None
    capital: Optional[str] = None


@dataclass(eq=False)
class Holder:
    """Any value, in the property `value`."""

    value: Any = None


def save(store, entities):
    """Stores `entities` ({id: entity}) in one session."""
    with store.open_session() as session:
        for key, entity in entities.items():
            session.store(entity, key)
        session.save_changes()


def load(store, key, object_type):
    """The document `key` as loaded in a new session."""
    with store.open_session() as session:
        return session.load(key, object_type)


def remove(store, key):
    with store.open_session() as session:
        session.delete(key)
        session.save_changes()


def change_vector(store, key):
    with store.open_session() as session:
        return session.advanced.get_change_vector_for(session.load(key, Holder))
