#!/usr/bin/env python3
"""Random layered graphs: the family of graphs that Gagrani et al. (2022) and Moccasin (Bartan et al. 2023) plan.

Nodes lie in layers of random width; an edge joins nodes of neighbouring layers with some probability, and some edges skip layers. Sizes are
half normal, times uniform. All nodes lead from one source to one sink, and the order of the graph is a random topological order that mostly
follows the layers.

Usage: layered_graph.py NODES SEED OUTPUT.json
"""

import heapq
import json
import random
import sys

DENSITY = 0.28  # of edges between neighbouring layers
SKIPS = 0.72  # edges over several layers, per node
SPREAD = 0.75  # of the widths of layers
LARGEST = 2500  # standard deviation of the size of a value


def layers_of(nodes: int, rng: random.Random) -> list[list[int]]:
    width = 0.7 * nodes**0.5
    layers, first = [[0]], 1
    while first < nodes - 1:
        n = max(1, min(nodes - 1 - first, round(width * rng.uniform(1 - SPREAD, 1 + SPREAD))))
        layers.append(list(range(first, first + n)))
        first += n
    layers.append([nodes - 1])
    return layers


def edges_of(layers: list[list[int]], rng: random.Random) -> list[set[int]]:
    """For each node the nodes that it reads."""
    reads: list[set[int]] = [set() for layer in layers for _ in layer]
    for above, layer in zip(layers, layers[1:]):
        for node in layer:
            reads[node] = {a for a in above if rng.random() < DENSITY} or {rng.choice(above)}
        used = set().union(*(reads[node] for node in layer))
        for a in above:
            if a not in used:
                reads[rng.choice(layer)].add(a)
    for _ in range(round(SKIPS * len(reads))):
        low, high = sorted(rng.sample(range(len(layers)), 2))
        if high - low > 1:
            reads[rng.choice(layers[high])].add(rng.choice(layers[low]))
    return reads


def order_of(layers: list[list[int]], reads: list[set[int]], rng: random.Random) -> list[int]:
    rank = {}
    for i, layer in enumerate(layers):
        for node in layer:
            rank[node] = i + rng.uniform(0, 1.3)
    readers: list[list[int]] = [[] for _ in reads]
    missing = [len(r) for r in reads]
    for node, sources in enumerate(reads):
        for a in sources:
            readers[a].append(node)
    ready, order = [(rank[n], n) for n in range(len(reads)) if missing[n] == 0], []
    heapq.heapify(ready)
    while ready:
        node = heapq.heappop(ready)[1]
        order.append(node)
        for r in readers[node]:
            missing[r] -= 1
            if missing[r] == 0:
                heapq.heappush(ready, (rank[r], r))
    return order


def layered_graph(nodes: int, seed: int) -> dict:
    rng = random.Random(seed)
    layers = layers_of(nodes, rng)
    reads = edges_of(layers, rng)
    order = order_of(layers, reads, rng)
    place = {node: i for i, node in enumerate(order)}
    values = [{"name": f"v{n}", "bytes": 10 * max(1, round(abs(rng.gauss(0, LARGEST)) / 10)), "kind": "activation"} for n in order]
    ops = [
        {
            "name": f"n{node}",
            "type": "op",
            "pass": "forward",
            "inputs": sorted(place[a] for a in reads[node]),
            "outputs": [place[node]],
            "time": float(rng.randrange(1000)),
            "workspace": 0,
        }
        for node in order
    ]
    return {"neap": "graph", "version": 1, "name": f"layered_{nodes}_{seed}", "fixed_bytes": 0, "values": values, "ops": ops, "outputs": [place[nodes - 1]]}


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        json.dump(layered_graph(int(sys.argv[1]), int(sys.argv[2])), file)
