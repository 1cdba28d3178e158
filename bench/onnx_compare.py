"""Gradients from neap against others: what differs, and by how much."""

import numpy as np
import onnx
from onnx import numpy_helper

ZERO_GRADIENT = 1e-3  # of the largest of all: a gradient below it counts against this


def difference(got, wanted, largest):
    """Of two gradients: the largest difference of entries, and that of the norms, as shares."""
    scale = max(np.abs(wanted).max(), ZERO_GRADIENT * largest)
    norm = max(np.linalg.norm(wanted), ZERO_GRADIENT * largest)
    return np.abs(got - wanted).max() / scale, abs(np.linalg.norm(got) - np.linalg.norm(wanted)) / norm


def worst(got, wanted):
    """The worst of all gradients that both have: (share of entries, share of norms, name)."""
    largest = max(np.abs(g).max() for g in wanted.values())
    found = [(*difference(got[name], wanted[name], largest), name) for name in got if name in wanted]
    return max(found, default=(0.0, 0.0, ""))


def statistics(proto):
    """The running means and variances, which are not trained."""
    return {name for node in proto.graph.node if node.op_type == "BatchNormalization" for name in node.input[3:5]}


def missing(path, got, wanted):
    """The parameters that have a gradient in PyTorch but not in neap; single numbers are part of a formula."""
    proto = onnx.load(path)
    sizes = {t.name: int(np.prod(t.dims)) for t in proto.graph.initializer}
    return [n for n, g in wanted.items() if n not in got and n not in statistics(proto) and sizes[n] > 1 and np.abs(g).max() > 0]


def tie(path, got, wanted):
    """Adds the gradient of a tensor that the file has twice, perhaps transposed, to that of the one that neap trains."""
    arrays = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    for name in [name for name in missing(path, got, wanted) if arrays[name].ndim == 2]:
        for other in got:
            for turned in (False, True):
                gradient = wanted[name].T if turned else wanted[name]
                array = arrays[name].T if turned else arrays[name]
                if name in wanted and other in wanted and np.array_equal(array, arrays[other]):
                    wanted[other] = wanted[other] + gradient
                    del wanted[name]
                    break
            if name not in wanted:
                break


def distances(got, wanted):
    """Of two sets of gradients: the norms of their differences, by name, as shares of the norms of the wanted ones; and that
    of all of them together. The norm of a gradient that is far below the others counts as ZERO_GRADIENT of the largest."""
    names = [name for name in got if name in wanted]
    differences = {name: np.linalg.norm(np.asarray(got[name], np.float64) - wanted[name]) for name in names}
    norms = {name: np.linalg.norm(wanted[name]) for name in names}
    least = ZERO_GRADIENT * max(norms.values())
    whole = np.linalg.norm(list(differences.values())) / np.linalg.norm(list(norms.values()))
    return {name: differences[name] / max(norms[name], least) for name in names}, whole
