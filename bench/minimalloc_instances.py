"""Generated instances in MiniMalloc's format whose capacity can be reached: it is the height of a packing that is known.

    bench/minimalloc_instances.py FOLDER [INSTANCE.CAPACITY.csv ...]

Writes FOLDER/NAME.CAPACITY.csv: a rectangle, time by capacity, cut into 150 to 450 buffers by random straight cuts
(guillotine), full, with a few buffers left out, or with cuts of only a few different sizes; pinwheels, which straight cuts
cannot make; and the instances given, with the time reversed.
"""

import os
import random
import sys

CAPACITY = 1 << 20


def cut(rng, count, steps, unit):
    """Splits the rectangle at random, one of the largest pieces each time: (begin, end, offset, top) of each."""
    pieces = [(0, steps, 0, CAPACITY // unit)]
    while len(pieces) < count:
        pieces.sort(key=lambda p: (p[1] - p[0]) * (p[3] - p[2]))
        at = rng.randrange(max(0, len(pieces) - 1 - len(pieces) // 3), len(pieces))
        begin, end, low, high = pieces[at]
        wide, tall = end - begin, high - low
        if wide < 2 and tall < 2:
            continue
        if tall < 2 or (wide >= 2 and rng.random() < 0.5):
            middle = rng.randrange(begin + 1, end)
            pieces[at : at + 1] = [(begin, middle, low, high), (middle, end, low, high)]
        else:
            middle = rng.randrange(low + 1, high)
            pieces[at : at + 1] = [(begin, end, low, middle), (begin, end, middle, high)]
    return pieces


def pinwheel(rng, piece):
    """Five pieces around a centre, or the piece itself if it is too small."""
    begin, end, low, high = piece
    if end - begin < 3 or high - low < 3:
        return [piece]
    t1, t2 = sorted(rng.sample(range(begin + 1, end), 2))
    o1, o2 = sorted(rng.sample(range(low + 1, high), 2))
    return [(begin, t2, low, o1), (t2, end, low, o2), (t1, end, o2, high), (begin, t1, o1, high), (t1, t2, o1, o2)]


def generate(seed):
    """(name, pieces, unit) of one instance of every kind."""
    rng = random.Random(seed)
    count = 150 + 100 * (seed % 4)
    full = cut(rng, count, 2 * count, 1)
    yield f"full{count}_{seed}", full, 1
    yield f"sparse{count}_{seed}", [p for p in cut(rng, count, 2 * count, 1) if rng.random() > 0.03], 1
    yield f"coarse{count}_{seed}", cut(rng, count, 2 * count, CAPACITY // 64), CAPACITY // 64
    wheels = [q for p in cut(rng, count // 5, 2 * count, 1) for q in pinwheel(rng, p)]
    yield f"wheels{len(wheels)}_{seed}", wheels, 1


def write(path, buffers):
    with open(path, "w", encoding="ascii") as file:
        file.write("id,lower,upper,size\n")
        file.writelines(f"{i},{begin},{end},{size}\n" for i, (begin, end, size) in enumerate(buffers))


def reverse(path, folder):
    """The same buffers, the last first."""
    with open(path, encoding="ascii") as file:
        rows = [line.split(",") for line in file.read().split()[1:]]
    buffers = [(int(row[1]), int(row[2]), int(row[3])) for row in rows]
    end = max(upper for _, upper, _ in buffers)
    name, capacity, _ = os.path.basename(path).split(".")
    write(os.path.join(folder, f"{name}_reversed.{capacity}.csv"),
          [(end - upper, end - lower, size) for lower, upper, size in buffers])  # fmt: skip


def fill(folder, seeds, given=()):
    for seed in seeds:
        for name, pieces, unit in generate(seed):
            buffers = [(begin, end, (high - low) * unit) for begin, end, low, high in pieces]
            random.Random(seed).shuffle(buffers)
            write(os.path.join(folder, f"{name}.{CAPACITY}.csv"), buffers)
    for path in given:
        reverse(path, folder)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    fill(sys.argv[1], range(4), sys.argv[2:])
