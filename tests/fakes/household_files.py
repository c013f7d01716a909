"""Hand-made game files for the tests: the form of genuine ones, in words of our own."""

import json
from pathlib import Path

DOMAIN = """
(define (domain alfred)
(:action examineObject :precondition (exists (?l - location, ?r - receptacle) (inReceptacle ?o ?r))) ; a comma
(:action help :parameters (?a - agent)))
"""
GRAMMAR = r'''
grammar :: """ {
  "task": [ { "rhs": "Your task is to: TASK." } ],
  "GotoLocation.feedback": [ { "rhs": "You arrive at {r.name}. #examineReceptacle.feedback#" } ],
  "PutObject.feedback": [ { "rhs": "You move the {o.name} to the {r.name}." } ] } """;
action PutObject { template :: "move {o} to {r}"; feedback :: "#PutObject.feedback#"; }
action help { template :: "help"; feedback :: "#help.feedback#";
  grammar :: """ {"help.feedback": [ { "rhs": "\nAvailable commands:\n  look\n" } ]} """; }
'''
OLD_GRAMMAR = (
    GRAMMAR.replace("You arrive at {r.name}", "You arrive at {lend.name}")
    .replace("You move the {o.name} to the", "You put the {o.name} in/on the")
    .replace("move {o} to {r}", "put {o} in/on {r}")
    .partition("action help")[0]
)

# Two shelves share a place; the drawer is closed, with a lamp in it; a bowl holds an egg; SaltShaker has no fact.
PROBLEM = """
(define (problem plan_1)
    (:domain alfred)   ; a comment (with parentheses
    (:objects
            agent1 - agent
        Apple - object
            SaltShaker   -   object

        loc_bar_0_bar_0 - location
        loc_bar_1_bar_0 - location
        loc_bar_2_bar_0 - location
        Shelf_bar_1 Shelf_bar_2
            Sink_bar_1_bar_SinkBasin - receptacle
        Drawer_bar_1 - receptacle
        Fridge_bar_1 - receptacle
        Microwave_bar_1 - receptacle
        Book_bar_1 - object
        BOOK_bar_2 - object
        Apple_bar_1 - object
        Knife_bar_1 - object
        Bowl_bar_1 - object
        Egg_bar_1 - object
        DeskLamp_bar_1 - object
        ShelfType - rtype
        DrawerType - rtype
        FridgeType - rtype MicrowaveType - rtype SinkBasinType - rtype
        BookType - otype
        AppleType - otype
    )
    (:init


        (atLocation agent1 loc_bar_0_bar_0)
        (= (total-cost) 0)
        (receptacleType Shelf_bar_1 ShelfType) (receptacleType Shelf_bar_2 ShelfType)
        (receptacleType Drawer_bar_1 DrawerType) (receptacleType Fridge_bar_1 FridgeType)
        (receptacleType Microwave_bar_1 MicrowaveType) (receptacleType Sink_bar_1_bar_SinkBasin SinkBasinType)
        (receptacleAtLocation Shelf_bar_1 loc_bar_1_bar_0)
        ( receptacleAtLocation   Shelf_bar_2   loc_bar_1_bar_0 )
        (receptacleAtLocation Drawer_bar_1 loc_bar_2_bar_0) (receptacleAtLocation Fridge_bar_1 loc_bar_2_bar_0)
        (receptacleAtLocation Microwave_bar_1 loc_bar_2_bar_0)
        (receptacleAtLocation Sink_bar_1_bar_SinkBasin loc_bar_2_bar_0)
        (openable Drawer_bar_1) (openable Fridge_bar_1) (OPENABLE Microwave_bar_1) (opened Microwave_bar_1)
        (canContain ShelfType BookType) (canContain FridgeType AppleType) (canContain ShelfType AppleType)
        (canContain ShelfType KnifeType) (canContain ShelfType BowlType)
        (objectType Book_bar_1 BookType) (objectType Book_bar_2 BookType) (objectType Apple_bar_1 AppleType)
        (objectType Knife_bar_1 KnifeType) (objectType Bowl_bar_1 BowlType) (objectType DeskLamp_bar_1 DeskLampType)
        (objectType Egg_bar_1 EggType)
        (inReceptacle Book_bar_1 Shelf_bar_1) (objectAtLocation Book_bar_1 loc_bar_1_bar_0)
        (inReceptacle Book_bar_2 Shelf_bar_1) (objectAtLocation Book_bar_2 loc_bar_1_bar_0)
        (inReceptacle Knife_bar_1 Shelf_bar_2) (objectAtLocation Knife_bar_1 loc_bar_1_bar_0)
        (inReceptacle Bowl_bar_1 Shelf_bar_2) (objectAtLocation Bowl_bar_1 loc_bar_1_bar_0)
        (inReceptacle Apple_bar_1 Fridge_bar_1) (objectAtLocation Apple_bar_1 loc_bar_2_bar_0)
        (inReceptacle DeskLamp_bar_1 Drawer_bar_1) (objectAtLocation DeskLamp_bar_1 loc_bar_2_bar_0)
        (isReceptacleObject Bowl_bar_1) (inReceptacleObject Egg_bar_1 Bowl_bar_1)
        (pickupable Book_bar_1) (pickupable Book_bar_2) (pickupable Apple_bar_1) (pickupable Knife_bar_1)
        (pickupable Bowl_bar_1) (pickupable Egg_bar_1)
        (cleanable Apple_bar_1) (heatable Apple_bar_1) (coolable Apple_bar_1) (sliceable Apple_bar_1)
        (toggleable DeskLamp_bar_1)
    )
    (:goal
        (and (exists (?r - receptacle)
            (exists (?o - object)
                (and (inReceptacle ?o ?r) (coolable ?o) (isCool ?o)
                     (objectType ?o AppleType) (receptacleType ?r ShelfType)
    ))))
  )
)
"""
for _kind in ("KnifeType", "BowlType", "DeskLampType", "EggType"):
    PROBLEM = PROBLEM.replace("        AppleType - otype\n", f"        AppleType - otype\n        {_kind} - otype\n")


def game_text(domain: str = DOMAIN, grammar: str = GRAMMAR, problem: str = PROBLEM, **more: object) -> str:
    """Return the content of a game file."""
    grammar = grammar.replace("TASK", "cool some apple and put it in shelf")
    content = {"pddl_domain": domain, "grammar": grammar, "pddl_problem": problem, "solvable": True}
    return json.dumps({**content, **more})


def write_game(folder: Path, kind: str = "pick_cool_then_place_in_recep", text: str | None = None) -> Path:
    """Write a game's two files into a folder; return the game file's path."""
    folder.mkdir(parents=True)
    (folder / "traj_data.json").write_text(json.dumps({"task_type": kind}))
    path = folder / "game.tw-pddl"
    path.write_text(game_text() if text is None else text)
    return path
