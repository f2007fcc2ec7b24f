#!/usr/bin/env python3
"""Makes ui/test/fixtures/picture.json: small columns and their drawings, as specified in
docs/operating/analytics-pictures.md.

A third implementation, written from that specification only and independent of the server's and the
web page's, so that an error would have to be made three times to pass.
`testing/picture/make.py > ui/test/fixtures/picture.json`
"""

import json
import math
import random

END = 2**64 - 1
BACKGROUND, HATCH = 256, 257


def powers(base, low, high, parts):
    out = [(0, base**low)]
    for p in range(low, high):
        first, after = base**p, base ** (p + 1)
        step = max(1, after // parts)
        out += [(a, a + step) for a in range(first, after, step)]
    return out + [(base**high, END)]


SCHEMES = {
    "latency": powers(10, 3, 11, 100),
    "size": powers(2, 0, 26, 32),
    "offset": powers(10, 0, 13, 100),
    "percent": [(n, n + 1) for n in range(100)] + [(100, END)],
}


def ln(x):
    e, m = 0.0, float(x)
    while m >= 2.0:
        m /= 2.0
        e += 1.0
    s = (m - 1.0) / (m + 1.0)
    z, t = s * s, 0.0
    for k in range(41, 0, -2):
        t = t * z + 1.0 / k
    return e * 0.6931471805599453 + 2.0 * s * t


def end_of(scheme, a, b):
    if b != END:
        return b
    return 101 if scheme == "percent" else a + a // 10


def heat(case):
    scheme, columns = case["scheme"], case["columns"]
    buckets = SCHEMES[scheme]
    log = case["scale"] == "log"
    counts = {}
    for column in columns:
        for a, _, n in column or []:
            counts[a] = counts.get(a, 0) + n
    used = [(a, b) for a, b in buckets if counts.get(a, 0)]
    events = sum(counts.values())

    low = case.get("low")
    if low is None:
        low = 0
        if log and used:
            a, b = used[0]
            low = a if a > 0 else max(1, b // 10)
    if log:
        low = max(1, low)
    high = case.get("high")
    if high is None:
        if scheme == "percent":
            high = 101
        elif not used:
            high = low + 1
        else:
            m = {"none": 0, "5": 500, "1": 100, "0.1": 10, "0.01": 1}[case["outliers"]]
            spare = math.floor(float(events) * m / 10000.0)
            for a, b in used:
                if sum(counts[x] for x, _ in used if x > a) <= spare:
                    high = end_of(scheme, a, b)
                    break
    high = max(high, low + 1)

    rows, width, height, cols = case["rows"], case["width"], case["height"], len(columns)

    def slot(v):
        if log:
            p = (ln(max(v, 1)) - ln(low)) * rows / (ln(high) - ln(low))
        else:
            p = (float(v) - low) * rows / (high - low)
        return int(min(max(math.floor(p), 0), rows))

    def is_below(b):
        return (max(b - 1, 1) if log else b - 1) < low

    shown = [(a, b) for a, b in buckets if not is_below(b) and a < high]
    row_of = {a: min(slot(a), rows - 1) for a, _ in shown}
    starts = sorted(set(row_of.values()))
    ends = {s: e for s, e in zip(starts, starts[1:] + [rows])}
    above = sum(n for a, n in counts.items() if a >= high)
    below = sum(n for a, n in counts.items() if a < high and a not in row_of)

    cells = {}
    for x, column in enumerate(columns):
        for a, _, n in column or []:
            if a in row_of:
                key = (x, row_of[a])
                cells[key] = cells.get(key, 0) + n
    values = sorted(v for v in cells.values() if v > 0)

    def index(v):
        if case["coloring"] == "rank":
            t = sum(1 for o in values if o <= v) / len(values)
        elif case["coloring"] == "linear":
            t = v / values[-1]
        else:
            t = ln(1 + v) / ln(1 + values[-1])
        return math.floor(t * 255 + 0.5)

    pixels = blank(columns, width, height)
    for (x, start), v in cells.items():
        if v > 0:
            for line in range(start * height // rows, ends[start] * height // rows):
                for px in range(x * width // cols, (x + 1) * width // cols):
                    pixels[height - 1 - line][px] = index(v)
    return {"low": low, "high": high, "above": above, "below": below, "cells": values, "pixels": pixels}


def blank(columns, width, height):
    cols = len(columns)
    pixels = [[BACKGROUND] * width for _ in range(height)]
    for x, column in enumerate(columns):
        if column is None:
            for px in range(x * width // cols, (x + 1) * width // cols):
                for y in range(height):
                    if (px + y) % 6 == 0:
                        pixels[y][px] = HATCH
    return pixels


def graph(case):
    columns, width, height, cols = case["columns"], case["width"], case["height"], len(case["columns"])
    sums = {}
    for column in columns:
        for key, n in (column or {}).get("cells", []):
            sums[key] = sums.get(key, 0) + n
    keys = sorted(sums, key=lambda k: (-sums[k], k))
    series = keys[:7] + ([None] if len(keys) > 7 or not keys else [])

    def value(column, key):
        cells = dict(column["cells"])
        n = cells.get(key, 0) if key is not None else column["total"] - sum(cells.get(k, 0) for k in series if k is not None)
        return n / (column["seconds"] if case["level"] else case["step"])

    stacked = case["shape"] == "stacked"
    values = [None if c is None else [value(c, k) for k in series] for c in columns]
    top = 0.0
    for v in values:
        if v is not None:
            top = max(top, sum(v) if stacked else max(v))
    if top <= 0:
        top = 1.0
    else:
        p, v = 1.0, top
        while p < v:
            p *= 10
        while p / 10 >= v:
            p /= 10
        top = next(t for t in (p / 5, p / 2, p) if t >= v)
    line_of = lambda v: math.floor(v * height / top + 0.5)

    pixels = blank(columns, width, height)
    span = lambda x: range(x * width // cols, (x + 1) * width // cols)
    if stacked:
        for x, v in enumerate(values):
            total = 0.0
            for n, one in enumerate(v or []):
                bottom, total = total, total + one
                for line in range(line_of(bottom), line_of(total)):
                    for px in span(x):
                        pixels[height - 1 - line][px] = n
    else:
        for n in reversed(range(len(series))):
            for x, v in enumerate(values):
                if v is None:
                    continue
                line = min(line_of(v[n]), height - 1)
                for px in span(x):
                    pixels[height - 1 - line][px] = n
                if x > 0 and values[x - 1] is not None:
                    old = min(line_of(values[x - 1][n]), height - 1)
                    for l in range(min(line, old), max(line, old) + 1):
                        pixels[height - 1 - l][span(x)[0]] = n
    return {"top": top, "series": series, "pixels": pixels}


def main():
    random.seed(7)

    def bucket(scheme, value):
        return next((a, b) for a, b in SCHEMES[scheme] if a <= value < b or b == END)

    def column(scheme, values):
        counts = {}
        for v, n in values:
            a, b = bucket(scheme, v)
            counts[(a, b)] = counts.get((a, b), 0) + n
        return [[a, None if b == END else b, n] for (a, b), n in sorted(counts.items())]

    def cloud(scheme, cols, centre, spread, each, gaps=()):
        out = []
        for x in range(cols):
            if x in gaps:
                out.append(None)
            else:
                draw = lambda: int(max(0, random.lognormvariate(math.log(centre), spread)))
                out.append(column(scheme, [(draw(), 1) for _ in range(each)]))
        return out

    heats = []

    def add(name, scheme, columns, width, height, rows, **more):
        case = {"name": name, "scheme": scheme, "columns": columns, "width": width, "height": height, "rows": rows,
                "scale": "linear", "coloring": "rank", "outliers": "none", **more}
        heats.append({**case, "expected": heat(case)})

    one = [column("latency", [(104_000, 1771), (700_000, 6)]), [], None, column("latency", [(104_000, 3)])]
    add("a cloud of 0.3 % is seen, zero is plain, not recorded is hatched", "latency", one, 16, 20, 10)
    add("the same, linear", "latency", one, 16, 20, 10, coloring="linear")
    add("the same, log", "latency", one, 16, 20, 10, coloring="log")
    add("pixels that columns and rows do not divide", "latency", one, 23, 17, 10)
    wide = cloud("latency", 12, 200_000, 0.8, 60, gaps=(5, 6))
    for outliers in ("none", "5", "1", "0.1", "0.01"):
        add(f"outliers {outliers}", "latency", wide, 24, 30, 30, outliers=outliers)
    add("a logarithmic axis", "latency", wide, 24, 30, 30, scale="log")
    add("a logarithmic axis, counts by logarithm", "latency", wide, 24, 30, 15, scale="log", coloring="log")
    add("a band, which cuts buckets and does not split them", "latency", wide, 24, 30, 30, low=105_000, high=333_333)
    add("a band on a logarithmic axis", "latency", wide, 24, 30, 30, low=105_000, high=933_333, scale="log")
    add("buckets taller than slots", "latency", cloud("latency", 8, 3_000_000, 0.3, 40), 8, 40, 40, low=0, high=5_000_000)
    far = [column("latency", [(500, 4), (10**12, 2)]), column("latency", [(50_000, 1)])]
    add("below all powers and above", "latency", far, 6, 12, 12)
    add("below all powers and above, logarithmic", "latency", far, 6, 12, 12, scale="log")
    sizes = [column("size", [(0, 2), (512, 3), (4096, 9), (131072, 5), (1 << 27, 1)]), column("size", [(8192, 40)])]
    add("sizes", "size", sizes, 8, 32, 32)
    add("sizes on a logarithmic axis, with zero", "size", sizes, 8, 32, 32, scale="log")
    stripes = [column("offset", [(x * 128 * 1024 + n * 8192, 1) for n in range(16)]) for x in range(16)]
    add("a file that is read from its start", "offset", stripes, 32, 24, 24)
    add("a file that is read from its start, logarithmic", "offset", stripes, 32, 24, 24, scale="log")
    disks = [column("percent", [(0, 3), (37, 1), (100, 2)]), None, column("percent", [(99, 1), (100, 5)])]
    add("disks by how busy they are", "percent", disks, 9, 25, 20)
    add("nothing happened", "latency", [[], [], None], 9, 6, 6)
    add("nothing happened, logarithmic", "latency", [[], [], None], 9, 6, 6, scale="log")
    add("large counts", "latency", [column("latency", [(20_000, 4_000_000_000_000), (90_000, 1)])], 3, 10, 10, outliers="0.01", coloring="log")

    graphs = []

    def draw(name, columns, width, height, shape, step=1, level=False):
        case = {"name": name, "columns": columns, "width": width, "height": height, "shape": shape, "step": step, "level": level}
        graphs.append({**case, "expected": graph(case)})

    def told(cells, total=None, seconds=1):
        return {"seconds": seconds, "total": sum(n for _, n in cells) if total is None else total, "cells": cells}

    few = [told([[3, 600], [9, 90]]), told([[3, 650], [9, 95], [11, 2]]), None, told([]), told([[9, 400], [3, 10]])]
    many = [told([[k, random.randrange(0, 90) or 1] for k in range(12)]) for _ in range(10)]
    raw = [told([], total=n) for n in (5, 0, 7, 12)]
    for shape in ("lines", "stacked"):
        draw(f"clients, {shape}", few, 20, 24, shape)
        draw(f"more than there is colour for, {shape}", many, 30, 40, shape)
        draw(f"without a breakdown, {shape}", raw, 13, 11, shape)
        draw(f"ten seconds a column, {shape}", many, 21, 24, shape, step=10)
        draw(f"nothing, {shape}", [told([]), None], 8, 7, shape)
    sampled = [told([[0, 300], [1, 150]], seconds=10), told([[0, 100], [1, 0]], seconds=4), None, told([[1, 30]], seconds=1)]
    draw("levels are averaged over what was recorded", sampled, 12, 20, "lines", step=10, level=True)

    print('{\n "about": "Made by testing/picture/make.py; see docs/operating/analytics-pictures.md",\n "heat": [')
    print(",\n".join("  " + json.dumps(c, separators=(",", ":")) for c in heats))
    print(' ],\n "graphs": [')
    print(",\n".join("  " + json.dumps(c, separators=(",", ":")) for c in graphs))
    print(" ]\n}")


main()
