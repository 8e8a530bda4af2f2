# SPDX-License-Identifier: Apache-2.0
"""The goals of speed on a GPU, from what was measured, and the table. For run.py."""

import collections
import random
import statistics

OURS, WITHOUT_STRATEGY = "mirrorflow", "mirrorflow, no strategy"
EAGER, COMPILE, AUTOTUNE, JAX = "torch eager", "torch compile", "torch max-autotune", "jax jit"
LOSS_TOLERANCE = 5e-3  # relative; products of 10 bits of fraction round in another order
RESAMPLES = 1000

Gate = collections.namedtuple("Gate", "gate what bound at_most figure")


def _interval(values):
    """Median and its 90 % interval, by bootstrap."""
    generator = random.Random(1)
    medians = sorted(statistics.median(generator.choices(values, k=len(values)))
                     for _ in range(RESAMPLES))
    return statistics.median(values), medians[RESAMPLES // 20], medians[-RESAMPLES // 20]


def _ratio(theirs, ours):
    """Of the times of rounds in which both took a turn."""

    def figure(by_name):
        a, b = by_name.get(theirs, {}), by_name.get(ours, {})
        pairs = list(zip(a.get("rounds_ms", []), b.get("rounds_ms", [])))
        return _interval([x / y for x, y in pairs]) if pairs else None

    return figure


def _quotient(a, b, key):
    def figure(by_name):
        over, under = by_name.get(a, {}).get(key), by_name.get(b, {}).get(key)
        return (over / under,) * 3 if over and under else None

    return figure


def _host(by_name):
    us = by_name.get(OURS, {}).get("host_us")
    return (us,) * 3 if us else None


def _first_step(by_name):
    """Cold: nothing that we compile was in a cache."""
    if by_name.get(OURS, {}).get("compilations", 0) == 0:
        return None
    return _quotient(COMPILE, OURS, "first_step_ms")(by_name)


def _at_least(gate, what, bound, figure):
    return Gate(gate, what, bound, False, figure)


def _at_most(gate, what, bound, figure):
    return Gate(gate, what, bound, True, figure)


def _steps(gate, bounds):
    return [_at_least(gate, f"{peer} / ours", bound, _ratio(peer, OURS)) for peer, bound in bounds]


_ALL = [
    _at_most("G1", "host time a step, µs", 15, _host),
    _at_most("G8", "peak memory, ours / eager", 0.8, _quotient(OURS, EAGER, "peak_memory")),
    _at_most("G8", "peak memory, ours / compile", 1.0, _quotient(OURS, COMPILE, "peak_memory")),
    _at_most("G11", "strategy on / off", 1.01, _ratio(OURS, WITHOUT_STRATEGY)),
]
_MLP = _steps("G2", [(EAGER, 5), (AUTOTUNE, 1.2), (JAX, 1.2)]) + _ALL
_CNN = _steps("G3", [(EAGER, 4), (COMPILE, 1.1), (JAX, 1.1)]) + _ALL
# The first case is also the first that compiles anything.
GATES = {
    ("mlp", 64): _MLP + [_at_least("G9", "cold first step, compile / ours", 4, _first_step)],
    ("mlp", 256): _MLP,
    ("cnn", 64): _CNN,
}
NOT_MEASURED = {
    "G4": "no transformer among our models yet",
    "G5": "no transformer among our models yet",
    "G6": "optimizers are not measured alone yet",
    "G7": "kernels a layer are not counted yet",
    "G10": "capture is not measured yet",
}


def _verdict(gate, figure):
    _, low, high = figure
    if gate.at_most:
        return "met" if high <= gate.bound else "missed" if low > gate.bound else "undecided"
    return "met" if low >= gate.bound else "missed" if high < gate.bound else "undecided"


def _lines_of(lines, model, batch):
    return {line["name"]: line for line in lines
            if line["model"] == model and line["batch"] == batch and "median_ms" in line}


def verdicts(lines):
    """One object a gate and case, in the order of the gates."""
    made = []
    for (model, batch), all_gates in GATES.items():
        by_name = _lines_of(lines, model, batch)
        for gate in all_gates:
            figure = gate.figure(by_name)
            one = {"gate": gate.gate, "case": f"{model} {batch}, {gate.what}",
                   "bound": ("≤ " if gate.at_most else "≥ ") + f"{gate.bound:g}"}
            if figure is None:
                one["verdict"] = "not measured"
            else:
                one.update(median=figure[0], low=figure[1], high=figure[2],
                           verdict=_verdict(gate, figure))
            made.append(one)
    made += [{"gate": gate, "case": why, "bound": "", "verdict": "not measured"}
             for gate, why in NOT_MEASURED.items()]
    return sorted(made, key=lambda one: int(one["gate"][1:]))


def loss_rows(stage, lines, model, batch):
    """A row that failed if the first losses of two programs differ that began alike."""
    from processes import FAILED, Row
    by_name = _lines_of(lines, model, batch)
    ours = by_name.get(OURS)
    rows = []
    for name, line in by_name.items() if ours else ():
        worst = max((abs(a - b) / abs(b) for a, b in zip(line["losses"], ours["losses"])),
                    default=0)
        if worst > LOSS_TOLERANCE:
            rows.append(Row(f"{stage}: {name}", FAILED,
                            f"its losses differ from ours by {worst:.2g} of them"))
    return rows


def table(rows, verdicts_):
    """All stages, then all gates."""
    lines = [("stage", "result", "what", "s")]
    lines += [(row.stage, row.result, row.what, f"{row.seconds:.0f}") for row in rows]
    for one in verdicts_:
        what = one["case"]
        if "median" in one:
            what += f": {one['median']:.3g} ({one['low']:.3g} to {one['high']:.3g})"
        if one["bound"]:
            what += f", expected {one['bound']}"
        lines.append((f"gate {one['gate']}", one["verdict"], what, ""))
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                     for line in lines)
