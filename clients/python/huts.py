"""Mountain huts and the clubs that own them: one small collection that every query test can check by eye.

The regions differ in case once, one hut has no region, no tags and no place, and one names a club that does
not exist.
"""

from dataclasses import dataclass, field
from typing import List, Optional

from entities import save


@dataclass(eq=False)
class Hut:
    name: Optional[str] = None
    region: Optional[str] = None
    altitude: int = 0
    beds: int = 0
    price: Optional[float] = None
    tags: Optional[List[str]] = field(default_factory=list)
    club: Optional[str] = None
    latitude: Optional[float] = None
    longitude: Optional[float] = None
    about: str = ""


@dataclass(eq=False)
class Club:
    name: Optional[str] = None
    members: int = 0


CLUBS = {"clubs/alpine": Club("Alpine Club", 170000), "clubs/guides": Club("Guides of Zermatt", 80)}

# fmt: off
HUTS = {
    "huts/rosa": Hut("Monte Rosa", "Valais", 2883, 120, 89.5, ["glacier", "winter"], "clubs/alpine", 45.9568, 7.8153,
                     "A modern hut above the glacier with a view of the Matterhorn"),
    "huts/ridge": Hut("Hörnli", "Valais", 3260, 130, 150.0, ["climbing"], "clubs/guides", 45.9819, 7.6770,
                      "A stone hut on the ridge of the Matterhorn for climbers"),
    "huts/saas": Hut("Britannia", "valais", 3030, 134, 82.0, ["glacier", "ski"], "clubs/alpine", 46.0597, 7.9397,
                     "A wooden hut between two glaciers with quiet rooms"),
    "huts/lake": Hut("Blüemlisalp", "Bern", 2840, 138, 75.5, ["glacier"], "clubs/alpine", 46.5008, 7.7697,
                     "A wooden hut with a wide view of the lake"),
    "huts/ice": Hut("Finsteraar", "Bern", 3048, 115, 79.0, ["ski", "winter"], "clubs/alpine", 46.5236, 8.1230,
                    "A stone hut deep in the ice, far from every road"),
    "huts/round": Hut("Coaz", "Grisons", 2610, 80, 70.0, ["glacier", "climbing"], "clubs/alpine", 46.3667, 9.8667,
                      "A round stone hut with a view of the Roseg glacier"),
    "huts/valley": Hut("Boval", "Grisons", 2495, 90, None, [], "clubs/nobody", 46.4100, 9.9500,
                       "A family hut beside the Morteratsch glacier"),
    "huts/tin": Hut("Tin Box", None, 3800, 6, 0.0, None),
}
# fmt: on


def save_huts(store):
    save(store, {**CLUBS, **HUTS})


def names(query):
    """The names of the huts that the query finds once its index is up to date, in result order."""
    return [hut.name for hut in query.wait_for_non_stale_results()]
