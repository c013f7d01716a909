"""Geometry: points with integer coordinates, translated, mirrored and measured; and rectangles."""

from agentgym.envs.code.families.family import Frame, ProgramFamily, ProgramSpec, Rng, Rule, typed
from agentgym.envs.code.families.slots import integer, length, one

NEAR = " (a float; errors up to 1e-6 are accepted)"


def _point(rng: Rng) -> tuple[int, int]:
    return int(rng.integers(-8, 9)), int(rng.integers(-8, 9))


def _points(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    drawn = [_point(rng) for _number in range(length(rng, difficulty, 7))]
    if drawn and rng.random() < 0.4:  # some duplicates and some collinear points
        drawn.append(one(drawn, rng))
        x, y = one(drawn, rng)
        drawn.append((x, y + int(rng.integers(1, 5))))
    return [drawn]


def _rectangles(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    rectangles: list[tuple[int, int, int, int]] = []
    for _number in range(length(rng, difficulty, 4)):
        x, y = _point(rng)
        rectangles.append((x, y, x + int(rng.integers(1, 8)), y + int(rng.integers(1, 8))))
    return [rectangles]


FRAMES = (
    Frame(
        "`points` is a list of tuples (x, y) of integers; it may be empty.",
        "points",
        _points,
        "import math\npoints = list(points)",
        gives="points",
    ),
    Frame(
        "`corners` is a list of tuples (x, y) of integers: the corners of a polygon, in order around it; it may be empty.",
        "corners",
        _points,
        "import math\npoints = list(corners)",
        gives="polygon",
    ),
    Frame(
        "`boxes` is a list of rectangles: tuples (left, bottom, right, top) of integers with left < right and bottom < top.",
        "boxes",
        _rectangles,
        "boxes = list(boxes)",
        gives="boxes",
    ),
)
MOVES = (
    Rule(
        "Move every point by ($a, $b).",
        "points = [(x + $a, y + $b) for x, y in points]",
        ("points = [(x + $b, y + $a) for x, y in points]",),
        {"a": integer(-5, 5), "b": integer(-5, 5)},
    ),
    Rule(
        "Reflect every point across the x-axis.",
        "points = [(x, -y) for x, y in points]",
        ("points = [(-x, y) for x, y in points]",),
    ),
    Rule(
        "Reflect every point across the line y = x.",
        "points = [(y, x) for x, y in points]",
        ("points = [(-x, -y) for x, y in points]",),
    ),
    Rule(
        "Rotate every point by 90 degrees counterclockwise about the origin ((1, 0) becomes (0, 1)).",
        "points = [(-y, x) for x, y in points]",
        ("points = [(y, -x) for x, y in points]", "points = [(y, x) for x, y in points]"),
    ),
    Rule(
        "Multiply every x by $a and every y by $b.",
        "points = [(x * $a, y * $b) for x, y in points]",
        ("points = [(x * $a, y * $a) for x, y in points]",),
        {"a": integer(1, 3), "b": integer(2, 4)},
    ),
    Rule(
        "Shear every point horizontally: add $a times its y to its x.",
        "points = [(x + $a * y, y) for x, y in points]",
        ("points = [(x, y + $a * x) for x, y in points]", "points = [(x + $a, y) for x, y in points]"),
        {"a": integer(1, 3)},
    ),
)
FILTERS = (
    Rule(
        "Drop the points that are farther than $r from the origin (points at exactly that distance stay).",
        "points = [(x, y) for x, y in points if x * x + y * y <= $r ** 2]",
        (
            "points = [(x, y) for x, y in points if abs(x) + abs(y) <= $r]",
            "points = [(x, y) for x, y in points if max(abs(x), abs(y)) <= $r]",
        ),
        {"r": integer(6, 11)},
    ),
    Rule(
        "Drop duplicate points, keeping the first of each.",
        "points = list(dict.fromkeys(points))",
        ("points = sorted(set(points))",),
    ),
    Rule(
        "Sort the points by their distance from ($a, $b), nearest first; break ties by x, then by y.",
        "points = sorted(points, key=lambda p: ((p[0] - $a) ** 2 + (p[1] - $b) ** 2, p))",
        (
            "points = sorted(points, key=lambda p: (p[0] - $a) ** 2 + (p[1] - $b) ** 2)",
            "points = sorted(points, key=lambda p: (abs(p[0] - $a) + abs(p[1] - $b), p))",
        ),
        {"a": integer(-4, 4), "b": integer(-4, 4)},
    ),
    Rule(
        "Drop the points on or above the line y = $a * x + $b.",
        "points = [(x, y) for x, y in points if y < $a * x + $b]",
        (
            "points = [(x, y) for x, y in points if y <= $a * x + $b]",
            "points = [(x, y) for x, y in points if y > $a * x + $b]",
        ),
        {"a": integer(-2, 2), "b": integer(1, 6)},
    ),
)
BOXES = (
    Rule(
        "Move every rectangle by ($a, $b).",
        "boxes = [(l + $a, b + $b, r + $a, t + $b) for l, b, r, t in boxes]",
        ("boxes = [(l + $a, b + $a, r + $b, t + $b) for l, b, r, t in boxes]",),
        {"a": integer(-5, 5), "b": integer(-5, 5)},
    ),
    Rule(
        "Drop the rectangles whose area is less than $n.",
        "boxes = [(l, b, r, t) for l, b, r, t in boxes if (r - l) * (t - b) >= $n]",
        (
            "boxes = [(l, b, r, t) for l, b, r, t in boxes if (r - l) * (t - b) > $n]",
            "boxes = [(l, b, r, t) for l, b, r, t in boxes if 2 * (r - l + t - b) >= $n]",
        ),
        {"n": integer(3, 12)},
    ),
    Rule(
        "Extend every rectangle by $n on each of its four sides.",
        "boxes = [(l - $n, b - $n, r + $n, t + $n) for l, b, r, t in boxes]",
        ("boxes = [(l, b, r + $n, t + $n) for l, b, r, t in boxes]",),
        {"n": integer(1, 3)},
    ),
    Rule(
        "Swap x and y: left becomes bottom, and right becomes top.",
        "boxes = [(b, l, t, r) for l, b, r, t in boxes]",
        ("boxes = [(t, r, b, l) for l, b, r, t in boxes]",),
    ),
    Rule(
        "Drop every rectangle that lies inside another one in the list (sides may touch); of equal rectangles, the "
        "first stays.",
        "boxes = list(dict.fromkeys(boxes))\nboxes = [(l, b, r, t) for l, b, r, t in boxes if not any((l, b, "
        "r, t) != o and o[0] <= l and o[1] <= b and r <= o[2] and t <= o[3] for o in boxes)]",
        (
            "boxes = list(dict.fromkeys(boxes))",
            "boxes = [(l, b, r, t) for l, b, r, t in boxes if not any((l, b, r, t) != o and o[0] <= l and o[1] "
            "<= b and r <= o[2] and t <= o[3] for o in boxes)]",
        ),
        once=True,
    ),
    Rule(
        "Clip every rectangle to the range from -$n to $n in both directions, and drop those that are left without area.",
        "boxes = [(max(l, -$n), max(b, -$n), min(r, $n), min(t, $n)) for l, b, r, t in boxes if max(l, -$n) < "
        "min(r, $n) and max(b, -$n) < min(t, $n)]",
        (
            "boxes = [(l, b, r, t) for l, b, r, t in boxes if -$n <= l and r <= $n and -$n <= b and t <= $n]",
            "boxes = [(max(l, -$n), max(b, -$n), min(r, $n), min(t, $n)) for l, b, r, t in boxes]",
        ),
        {"n": integer(4, 7)},
    ),
)
PAIRS = "[math.dist(p, q) for i, p in enumerate(points) for q in points[i + 1:]]"
HULL = (
    "points = sorted(set(points))\nif len(points) < 3:\n    return points\ndef half(points):\n    out = []\n"
    "    for x, y in points:\n"
    "        while len(out) > 1 and (out[-1][0] - out[-2][0]) * (y - out[-2][1]) <= (out[-1][1] - out[-2][1]) "
    "* (x - out[-2][0]):\n"
    "            out.pop()\n        out.append((x, y))\n    return out[:-1]\n"
    "return sorted(half(points) + half(points[::-1]))"
)
AREA = "abs(sum(x * v - u * y for (x, y), (u, v) in zip(points, points[1:] + points[:1]))) / 2"
ROUND = "sum(math.dist(p, q) for p, q in zip(points, points[1:] + points[:1]))"
COVER = "len({(x, y) for l, b, r, t in boxes for x in range(l, r) for y in range(b, t)})"
ENDS = (
    *typed(
        "points",
        (
            Rule("the list of points.", "return points"),
            Rule(
                f"the smallest distance between any two of the points, or -1.0 if there are fewer than two{NEAR}.",
                f"return min({PAIRS}, default=-1.0)",
                (
                    f"return max({PAIRS}, default=-1.0)",
                    "return min((math.dist(p, q) for p, q in zip(points, points[1:])), default=-1.0)",
                ),
            ),
            Rule(
                f"the length of the path through all points in order{NEAR}, or 0.0 if there are fewer than two.",
                "return float(sum(math.dist(p, q) for p, q in zip(points, points[1:])))",
                (f"return float({ROUND})",),
            ),
            Rule(
                "the sorted list of the corners of their convex hull, without points that lie on its sides between "
                "corners; if there are fewer than three distinct points, all of them are corners.",
                HULL,
                (
                    HULL.replace("<=", "<"),
                    "xs, ys = [x for x, y in points], [y for x, y in points]\n"
                    "return sorted({p for p in points if p[0] in (min(xs), max(xs)) or p[1] in (min(ys), "
                    "max(ys))})",
                ),
            ),
            Rule(
                "the number of triples of points (at three different positions in the list) that lie on one line.",
                "return sum((q[0] - p[0]) * (r[1] - p[1]) == (q[1] - p[1]) * (r[0] - p[0]) for i, p in "
                "enumerate(points) for j, q in enumerate(points[i + 1:], i + 1) for r in points[j + 1:])",
                (
                    "return sum(p[0] == q[0] == r[0] or p[1] == q[1] == r[1] for i, p in enumerate(points) for "
                    "j, q in enumerate(points[i + 1:], i + 1) for r in points[j + 1:])",
                    "return sum((q[0] - p[0]) * (r[1] - p[1]) == (q[1] - p[1]) * (r[0] - p[0]) for p, q, r in "
                    "zip(points, points[1:], points[2:]))",
                ),
            ),
            Rule(
                "the smallest axis-aligned rectangle that contains all points, as a tuple (left, bottom, right, "
                "top), or None if there are no points.",
                "return (min(x for x, y in points), min(y for x, y in points), max(x for x, y in points), "
                "max(y for x, y in points)) if points else None",
                (
                    "return (*min(points), *max(points)) if points else None",
                    "return (min(x for x, y in points), max(x for x, y in points), min(y for x, y in points), "
                    "max(y for x, y in points)) if points else None",
                ),
            ),
            Rule(
                "the number of pairs of points (at two different positions in the list) that are at most $d apart.",
                "return sum((p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2 <= $d ** 2 for i, p in enumerate(points) "
                "for q in points[i + 1:])",
                (
                    "return sum(abs(p[0] - q[0]) + abs(p[1] - q[1]) <= $d for i, p in enumerate(points) for q "
                    "in points[i + 1:])",
                    "return sum((p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2 <= $d ** 2 for p in points for q in points)",
                ),
                {"d": integer(3, 10)},
            ),
        ),
    ),
    *typed(
        "polygon",
        (
            Rule(
                f"the absolute value of the area by the shoelace formula{NEAR}, or 0.0 if there are no corners.",
                f"return float({AREA})",
                (
                    f"return 2.0 * {AREA}",
                    AREA.replace("points[1:] + points[:1]", "points[1:]").replace("abs", "return float(abs", 1) + ")",
                ),
            ),
            Rule(
                f"its perimeter, including the side back to the first corner{NEAR}, or 0.0 if there are no corners.",
                f"return float({ROUND})",
                (
                    "return float(sum(math.dist(p, q) for p, q in zip(points, points[1:])))",
                    f"return float({ROUND.replace('math.dist(p, q)', 'abs(p[0] - q[0]) + abs(p[1] - q[1])')})",
                ),
            ),
            Rule(
                "the number of points with integer coordinates on its sides, summed over the sides: each side counts "
                "its end but not its start, and a side of length 0 counts none.",
                "return sum(max(math.gcd(u - x, v - y), 1) for (x, y), (u, v) in zip(points, points[1:] + "
                "points[:1]) if (x, y) != (u, v))",
                (
                    "return sum(math.gcd(u - x, v - y) + 1 for (x, y), (u, v) in zip(points, points[1:] + points[:1]))",
                    "return len(points)",
                ),
            ),
            Rule(
                "whether it turns left (counterclockwise) at every corner: the cross product of the side before and "
                "the side after each corner is positive. False if it has no corners.",
                "return bool(points) and all((q[0] - p[0]) * (r[1] - q[1]) > (q[1] - p[1]) * (r[0] - q[0]) for "
                "p, q, r in zip(points, points[1:] + points[:1], points[2:] + points[:2]))",
                (
                    "return bool(points) and all((q[0] - p[0]) * (r[1] - q[1]) >= (q[1] - p[1]) * (r[0] - "
                    "q[0]) for p, q, r in zip(points, points[1:] + points[:1], points[2:] + points[:2]))",
                ),
            ),
        ),
    ),
    *typed(
        "boxes",
        (
            Rule("the list of rectangles.", "return boxes"),
            Rule(
                "the area of their union (overlaps count once).",
                f"return {COVER}",
                (
                    "return sum((r - l) * (t - b) for l, b, r, t in boxes)",
                    f"return {COVER.replace('range(l, r)', 'range(l, r + 1)')}",
                ),
            ),
            Rule(
                "the number of pairs of rectangles (at two different positions in the list) that overlap with "
                "positive area; touching is not enough.",
                "return sum(p[0] < q[2] and q[0] < p[2] and p[1] < q[3] and q[1] < p[3] for i, p in "
                "enumerate(boxes) for q in boxes[i + 1:])",
                (
                    "return sum(p[0] <= q[2] and q[0] <= p[2] and p[1] <= q[3] and q[1] <= p[3] for i, p in "
                    "enumerate(boxes) for q in boxes[i + 1:])",
                    "return sum(p[0] < q[2] and q[0] < p[2] or p[1] < q[3] and q[1] < p[3] for i, p in "
                    "enumerate(boxes) for q in boxes[i + 1:])",
                ),
            ),
            Rule(
                "the intersection of all of them as a rectangle (left, bottom, right, top), or None if it has no "
                "area or there are no rectangles.",
                "if not boxes:\n    return None\nl, b, r, t = (max(o[0] for o in boxes), max(o[1] for o in "
                "boxes), min(o[2] for o in boxes), min(o[3] for o in boxes))\n"
                "return (l, b, r, t) if l < r and b < t else None",
                (
                    "if not boxes:\n    return None\nl, b, r, t = (max(o[0] for o in boxes), max(o[1] for o in "
                    "boxes), min(o[2] for o in boxes), min(o[3] for o in boxes))\n"
                    "return (l, b, r, t) if l <= r and b <= t else None",
                    "return (min(o[0] for o in boxes), min(o[1] for o in boxes), max(o[2] for o in boxes), "
                    "max(o[3] for o in boxes)) if boxes else None",
                ),
            ),
            Rule(
                "the list of their areas.",
                "return [(r - l) * (t - b) for l, b, r, t in boxes]",
                ("return [2 * (r - l + t - b) for l, b, r, t in boxes]", "return [r * t - l * b for l, b, r, t in boxes]"),
            ),
        ),
    ),
)
FAMILY = ProgramFamily(
    "geometry",
    FRAMES,
    typed("points", MOVES + FILTERS) + typed("polygon", MOVES) + typed("boxes", BOXES),
    ENDS,
    tolerance=1e-6,
    names=("measure", "survey", "outline", "place", "map_points"),
)
