"""Contents of rooms: classes of receptacles and objects by kind of room, and places of lamps."""

from dataclasses import dataclass

from agentgym.envs.household.catalog import CAN_CONTAIN, CLEANABLE, COOLABLE, HEATABLE, TASK_TYPES, words

LAMPS = ("DeskLamp", "FloorLamp")
LAMP_STANDS = frozenset(words("CoffeeTable Desk Dresser Shelf SideTable"))
TREATABLE = {"clean": CLEANABLE, "heat": HEATABLE, "cool": COOLABLE}


@dataclass(frozen=True, slots=True)
class Room:
    """A kind of room, such as a kitchen."""

    types: tuple[str, ...]
    """Task types that ALFRED sets in this room."""
    always: tuple[str, ...]
    """Classes of receptacles that every such room has."""
    single: tuple[str, ...]
    """Classes of receptacles that occur at most once."""
    several: tuple[str, ...]
    """Classes of receptacles that may occur several times; frequent classes are repeated in the list."""
    objects: tuple[str, ...]
    """Classes of movable objects."""


_FOOD = "Apple Bread Egg Lettuce Potato Tomato"
_WARE = "Bowl Cup Fork Knife ButterKnife Ladle Mug Pan Plate Pot Spatula Spoon Kettle"
_DESKTOP = "AlarmClock Book CD CellPhone CreditCard KeyChain Laptop Pen Pencil Watch"

ROOMS = {
    "kitchen": Room(
        types=(TASK_TYPES[0], *TASK_TYPES[2:]),
        always=words("Fridge Microwave SinkBasin"),
        single=words("CoffeeMachine GarbageCan Toaster"),
        several=words(
            "Cabinet Cabinet Cabinet Cabinet Drawer Drawer Drawer CounterTop DiningTable StoveBurner Shelf SideTable"
        ),
        objects=words(f"{_FOOD} {_WARE} DishSponge Glassbottle PepperShaker SaltShaker SoapBottle WineBottle Vase"),
    ),
    "living room": Room(
        types=(TASK_TYPES[0], TASK_TYPES[1], TASK_TYPES[5]),
        always=(),
        single=words("GarbageCan Safe TVStand Ottoman Desk"),
        several=words("Drawer Drawer Drawer Cabinet Cabinet Shelf SideTable CoffeeTable Sofa ArmChair DiningTable Dresser"),
        objects=words(
            "Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl Statue TissueBox Vase Watch "
            "WateringCan Candle Plate Bowl"
        ),
    ),
    "bedroom": Room(
        types=(TASK_TYPES[0], TASK_TYPES[1], TASK_TYPES[5]),
        always=(),
        single=words("GarbageCan Safe LaundryHamper Dresser"),
        several=words("Drawer Drawer Drawer Shelf SideTable Desk Bed Cabinet Cabinet ArmChair CoffeeTable"),
        objects=words(f"{_DESKTOP} BaseballBat BasketBall Bowl Cloth Mug Pillow TennisRacket TissueBox Vase"),
    ),
    "bathroom": Room(
        types=(TASK_TYPES[0], TASK_TYPES[2], TASK_TYPES[5]),
        always=words("SinkBasin Toilet"),
        single=words("BathtubBasin GarbageCan ToiletPaperHanger LaundryHamper Cart"),
        several=words(
            "Cabinet Cabinet Cabinet Drawer Drawer Shelf CounterTop SideTable HandTowelHolder TowelHolder Dresser"
        ),
        objects=words(
            "Candle Cloth DishSponge HandTowel PaperTowel Plunger SoapBar SoapBottle SprayBottle TissueBox ToiletPaper "
            "ToiletPaperRoll Towel"
        ),
    ),
}


def holds(receptacle: str, thing: str) -> bool:
    """Return whether an object may be in or on a receptacle, given their classes; lamps may be on lamp stands."""
    return thing in CAN_CONTAIN[receptacle] or (thing in LAMPS and receptacle in LAMP_STANDS)
