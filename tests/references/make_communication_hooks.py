# SPDX-License-Identifier: Apache-2.0
"""Writes hooks/*.npz: steps of a linear regression under communication hooks.

    make_communication_hooks.py numpy      hooks/numpy.npz: formulas, with NumPy
    make_communication_hooks.py pytorch    hooks/pytorch.npz: PyTorch's hooks, on two processes

The second form needs `pip install torch` (the stored file is from 2.15; any build works, because the
processes compute on CPUs and communicate through gloo). Both files have the batch (x, y), the
initial weights (w, b), PowerSGD's initial factors (q1, q2) and, for each case, the weights after
each step (CASE_w, CASE_b). The loss is the mean of the squares of x w + b - y.
"""

import os
import pathlib
import sys

import numpy as np

_FOLDER = pathlib.Path(__file__).resolve().parent / "hooks"
_STEPS, _LEARNING_RATE = 5, 0.5
_ROWS, _IN, _OUT = 8, 12, 10


def _problem():
    random = np.random.RandomState(7)
    normal = lambda *shape: random.randn(*shape).astype(np.float32)
    return {
        "x": normal(_ROWS, _IN),
        "y": normal(_ROWS, _OUT),
        "w": normal(_IN, _OUT) / 2,
        "b": normal(_OUT),
    }


# ---- NumPy -----------------------------------------------------------------------------------


def _bfloat16(x):
    """Rounds to nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32)


def _half(x):
    return np.float32(np.float16(x))


class _Compress:
    """Rounds gradients, and adds the rounding error of each step to the next step."""

    def __init__(self, rounded):
        self.rounded, self.error = rounded, {}

    def __call__(self, name, parts):
        before = self.error.get(name, [np.zeros_like(part) for part in parts])
        sums = [part + e for part, e in zip(parts, before)]
        sent = [self.rounded(s) for s in sums]
        self.error[name] = [s - c for s, c in zip(sums, sent)]
        return self.rounded(np.sum(np.float64(sent), axis=0))


def _orthogonal(matrix):
    """Orthogonalises by the Gram-Schmidt process."""
    matrix = np.float64(matrix)
    for i in range(matrix.shape[1]):
        for j in range(i):
            matrix[:, i] -= (matrix[:, j] @ matrix[:, i]) * matrix[:, j]
        norm = np.linalg.norm(matrix[:, i])
        matrix[:, i] /= norm if norm else 1
    return matrix


class _PowerSgd:
    def __init__(self, q, feedback=True):
        self.q, self.feedback, self.error = np.float64(q), feedback, 0

    def __call__(self, name, parts):
        if parts[0].ndim < 2:
            return sum(parts)
        matrices = [np.float64(part) + self.error / len(parts) for part in parts]
        p = _orthogonal(sum(m @ _orthogonal(self.q) for m in matrices))
        self.q = sum(m.T @ p for m in matrices)
        result = p @ self.q.T
        if self.feedback:  # only the sum of the replicas' errors matters
            self.error = sum(matrices) - result
        return np.float32(result)


def _pair(a, b):
    dot, aa, bb = (a * b).sum(), (a * a).sum(), (b * b).sum()
    return (1 - (dot / (2 * aa) if aa else 0)) * a + (1 - (dot / (2 * bb) if bb else 0)) * b


def _adasum(_, parts):
    vectors = [np.float64(part) * len(parts) for part in parts]
    while len(vectors) > 1:
        pairs = [_pair(*vectors[i : i + 2]) for i in range(0, len(vectors) - 1, 2)]
        vectors = pairs + vectors[len(pairs) * 2 :]
    return np.float32(vectors[0])


def _train(problem, rows, hook):
    """Trains with `rows[r]` rows on replica r; returns the weights after each step."""
    w, b, after = problem["w"], problem["b"], {"w": [], "b": []}
    ends = np.cumsum([0, *rows])
    for _ in range(_STEPS):
        parts = {"w": [], "b": []}
        for first, last in zip(ends, ends[1:]):
            x, y = problem["x"][first:last], problem["y"][first:last]
            d = np.float32(2 / (_ROWS * _OUT)) * (x @ w + b - y)
            parts["w"].append(x.T @ d)
            parts["b"].append(d.sum(axis=0))
        w = w - np.float32(_LEARNING_RATE) * hook("w", parts["w"])
        b = b - np.float32(_LEARNING_RATE) * hook("b", parts["b"])
        after["w"].append(w)
        after["b"].append(b)
    return after


def _write(name, problem, cases):
    arrays = dict(problem)
    for case, after in cases.items():
        for variable, values in after.items():
            arrays[f"{case}_{variable}"] = np.float32(values)
    np.savez_compressed(_FOLDER / name, **arrays)


def _numpy():
    problem = _problem()
    random = np.random.RandomState(11)
    problem["q1"], problem["q2"] = (np.float32(random.randn(_OUT, r)) for r in (1, 2))
    q1, q2 = problem["q1"], problem["q2"]
    uneven = [3, 0, 5]
    cases = {
        "bf16_1": ([8], _Compress(_bfloat16)),
        "bf16_3": (uneven, _Compress(_bfloat16)),
        "fp16_3": (uneven, _Compress(_half)),
        "powersgd1_1": ([8], _PowerSgd(q1)),
        "powersgd1_3": (uneven, _PowerSgd(q1)),
        "powersgd2_3": (uneven, _PowerSgd(q2)),
        "powersgdnofeedback_2": ([4, 4], _PowerSgd(q2, feedback=False)),
        "adasum_1": ([8], _adasum),
        "adasum_2": ([4, 4], _adasum),
        "adasum_3": (uneven, _adasum),
        "adasum_4": ([2, 2, 2, 2], _adasum),
        "adasum_5": ([1, 2, 1, 2, 2], _adasum),
    }
    _write("numpy.npz", problem, {name: _train(problem, *case) for name, case in cases.items()})


# ---- PyTorch ---------------------------------------------------------------------------------

_START = 2  # PyTorch's minimum number of steps before PowerSGD


def _rank(rank, problem, case, file, results):
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor(problem["w"]))
            self.b = torch.nn.Parameter(torch.tensor(problem["b"]))

        def forward(self, x):
            return x @ self.w + self.b

    model = Model()
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    if case.startswith("powersgd"):
        state = powerSGD_hook.PowerSGDState(
            process_group=None,
            matrix_approximation_rank=int(case[-1]),
            start_powerSGD_iter=_START,
            use_error_feedback=True,
            warm_start=True,
            random_seed=0,
        )
        parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif case == "bf16":
        parallel.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif case == "fp16":
        parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)
    half = _ROWS // 2
    x = torch.tensor(problem["x"][rank * half : (rank + 1) * half])
    y = torch.tensor(problem["y"][rank * half : (rank + 1) * half])
    optimizer = torch.optim.SGD(parallel.parameters(), lr=_LEARNING_RATE)
    after = {"w": [], "b": []}
    for _ in range(_STEPS):
        optimizer.zero_grad()
        torch.mean((parallel(x) - y) ** 2).backward()
        optimizer.step()
        after["w"].append(model.w.detach().numpy().copy())
        after["b"].append(model.b.detach().numpy().copy())
    if rank == 0:
        results.put(after)
    dist.barrier()
    dist.destroy_process_group()


def _first_q(rank):
    """Returns the first factor that PowerSGDState(random_seed=0) draws."""
    import torch

    torch.manual_seed(np.random.RandomState(0).randint(1_000_000_000))
    return torch.randn(_OUT, rank).numpy()


def _pytorch():
    import tempfile

    import torch.multiprocessing as mp

    problem = _problem()
    problem["q1"], problem["q2"] = _first_q(1), _first_q(2)
    cases = {}
    for case in ("none", "bf16", "fp16", "powersgd1", "powersgd2"):
        results = mp.get_context("spawn").SimpleQueue()
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "rendezvous")
            mp.spawn(_rank, (problem, case, file, results), nprocs=2, join=False)
            cases[f"{case}_2"] = results.get()
    _write("pytorch.npz", problem, cases)


if __name__ == "__main__":
    {"numpy": _numpy, "pytorch": _pytorch}[sys.argv[1]]()
