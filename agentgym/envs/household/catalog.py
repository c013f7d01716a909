"""Classes of objects in ALFWorld's houses and what they may contain, from ALFRED's generator (arXiv:1912.01734)."""

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""Names of the six task types, in the order of their published numbers 1 to 6."""


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


OPENABLE = frozenset(words("Box Cabinet Drawer Fridge Microwave Safe"))
HEATABLE = frozenset(words("Apple Bread Cup Egg Mug Plate Potato Tomato"))
COOLABLE = frozenset(words("Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle"))
CLEANABLE = frozenset(
    words(
        "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan Plate Pot Potato "
        "SoapBar Spatula Spoon Tomato"
    )
)
SLICEABLE = frozenset(words("Apple Bread Egg Lettuce Potato Tomato"))
TOGGLEABLE = frozenset(words("DeskLamp FloorLamp"))
MOVABLE_RECEPTACLES = frozenset(words("Bowl Box Cup Mug Plate Pan Pot"))

_CONTENTS = """
BathtubBasin: Cloth DishSponge HandTowel SoapBar
Bed: BaseballBat BasketBall Book CellPhone Laptop Newspaper Pillow TennisRacket
Bowl: Apple ButterKnife CD Candle CellPhone Cloth CreditCard DishSponge Egg Fork KeyChain Knife Ladle Lettuce Mug
    PaperTowel Pen Pencil Potato RemoteControl Spatula Spoon Tomato Watch
Box: AlarmClock Book CD Candle CellPhone Cloth CreditCard DishSponge Glassbottle KeyChain Mug PaperTowel Pen Pencil
    RemoteControl Statue TissueBox Vase Watch
Cabinet: Book Bowl Box CD Candle Cloth Cup DishSponge Glassbottle HandTowel Kettle Ladle Mug Newspaper Pan
    PepperShaker Plate Plunger Pot SaltShaker SoapBar SoapBottle SprayBottle TissueBox ToiletPaper ToiletPaperRoll
    Vase WateringCan WineBottle
Cart: Candle Cloth DishSponge HandTowel Mug PaperTowel Plunger SoapBar SoapBottle SprayBottle Statue TissueBox
    ToiletPaper ToiletPaperRoll Vase
CoffeeMachine: Mug
CoffeeTable CounterTop DiningTable SideTable: AlarmClock Apple BaseballBat BasketBall Book Bowl Box Bread ButterKnife
    CD Candle CellPhone Cloth CreditCard Cup DishSponge Egg Fork Glassbottle HandTowel Kettle KeyChain Knife Ladle
    Laptop Lettuce Mug Newspaper Pan PaperTowel Pen Pencil PepperShaker Plate Pot Potato RemoteControl SaltShaker
    SoapBar SoapBottle Spatula Spoon SprayBottle Statue TennisRacket TissueBox ToiletPaper ToiletPaperRoll Tomato Vase
    Watch WateringCan WineBottle
Cup: ButterKnife Fork Spoon
Desk: AlarmClock BasketBall Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup Glassbottle KeyChain Laptop Mug
    Newspaper Pen Pencil Plate RemoteControl SoapBottle SprayBottle Statue TennisRacket TissueBox ToiletPaper
    ToiletPaperRoll Vase Watch WateringCan WineBottle
Drawer: Book ButterKnife CD Candle CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain Knife Ladle Newspaper
    Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle TissueBox
    ToiletPaper ToiletPaperRoll Watch WateringCan
Dresser: AlarmClock BasketBall Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup Glassbottle KeyChain Laptop Mug
    Newspaper Pen Pencil Plate RemoteControl SprayBottle Statue TennisRacket TissueBox ToiletPaper ToiletPaperRoll
    Vase Watch WateringCan WineBottle
Fridge: Apple Bowl Bread Cup Egg Glassbottle Lettuce Mug Pan Plate Pot Potato Tomato WineBottle
GarbageCan: Apple Bread CD Cloth DishSponge Egg HandTowel Lettuce Newspaper PaperTowel Pen Pencil Potato SoapBar
    SoapBottle SprayBottle TissueBox ToiletPaper ToiletPaperRoll Tomato WineBottle
HandTowelHolder: HandTowel
LaundryHamper: Cloth
Microwave: Apple Bowl Bread Cup Egg Glassbottle Mug Plate Potato Tomato
Mug: ButterKnife Fork KeyChain Knife Pen Pencil Spoon Watch
Plate: AlarmClock Apple Book ButterKnife CD Candle CellPhone Cloth CreditCard DishSponge Egg Fork Glassbottle KeyChain
    Knife Ladle Lettuce Mug PaperTowel Pen Pencil Potato Spatula Spoon TissueBox Tomato Watch
Pan Pot: Apple ButterKnife DishSponge Egg Fork Knife Ladle Lettuce Potato Spatula Spoon Tomato
Safe: CD CellPhone CreditCard KeyChain Statue Vase Watch
Shelf: AlarmClock Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup DishSponge Glassbottle HandTowel Kettle
    KeyChain Mug Newspaper PaperTowel Pen Pencil PepperShaker Plate Pot RemoteControl SaltShaker SoapBar SoapBottle
    SprayBottle Statue TissueBox ToiletPaper ToiletPaperRoll Vase Watch WateringCan WineBottle
SinkBasin: Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Glassbottle HandTowel Kettle Knife Ladle Lettuce Mug
    Pan Plate Pot Potato SoapBar Spatula Spoon Tomato
ArmChair Ottoman Sofa: BasketBall Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl
StoveBurner: Kettle Pan Pot
TVStand: TissueBox
Toaster:
Toilet: Candle Cloth DishSponge HandTowel Newspaper PaperTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper
    ToiletPaperRoll
ToiletPaperHanger: ToiletPaper ToiletPaperRoll
TowelHolder: Towel
"""


def _read_contents(table: str) -> dict[str, frozenset[str]]:
    """Parse lines `receptacle …: object …`; an indented line continues the previous one."""
    contents: dict[str, frozenset[str]] = {}
    for line in table.replace("\n    ", " ").strip().split("\n"):
        receptacles, _, objects = line.partition(":")
        for receptacle in receptacles.split():
            contents[receptacle] = frozenset(objects.split())
    return contents


CAN_CONTAIN = _read_contents(_CONTENTS)
"""Class of receptacle -> classes of objects it may contain (ALFRED's placement table without sliced classes)."""
