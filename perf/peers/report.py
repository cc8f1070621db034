"""What was measured, kept and shown: results as CSV, as one Markdown table, and as one SVG.

Results: {(collective, ranks, data, bytes, contender): [microseconds, one a round]}.
"""
import csv
import math
import statistics

OURS = "Rondo"
COLLECTIVES = ("all_reduce,reduce_scatter,all_gather,broadcast,reduce,gather,scatter,alltoall,sendrecv,"
               "grouped,pingpong,stream,window")
HEADER = ["collective", "ranks", "data", "bytes", "contender", "round", "time_us"]
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
           "#ff7f0e")


def write_csv(path, results):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for key, times in results.items():
            for number, time in enumerate(times, 1):
                writer.writerow([*key, number, time])


def read_csv(paths):
    """The results of earlier runs, all rounds together."""
    results = {}
    for path in paths:
        with open(path, newline="") as file:
            reader = csv.reader(file)
            if next(reader, None) != HEADER:
                raise ValueError(f"{path} is not what --csv writes")
            for collective, ranks, mode, size, name, _, time in reader:
                results.setdefault((collective, int(ranks), mode, int(size), name), []).append(float(time))
    return results


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


class Row:
    """The medians of one collective, number of ranks, data and size: {contender: microseconds}."""

    def __init__(self, key, medians):
        self.collective, self.ranks, self.mode, self.size = key
        self.medians = medians
        peers = {name: time for name, time in medians.items() if not name.startswith(OURS)}
        self.best = min(peers, key=peers.get) if peers else None

    def ratio(self, name):
        """To the fastest peer; None: one of the two was not measured."""
        if self.best is None or name not in self.medians:
            return None
        return self.medians[name] / self.medians[self.best]


def rows_of(results):
    order = COLLECTIVES.split(",")
    keys = sorted(dict.fromkeys(key[:4] for key in results),
                  key=lambda key: (order.index(key[0]), key[1], key[2] != "hot", key[3]))
    names = names_of(results)
    return [Row(key, {name: statistics.median(results[*key, name]) for name in names if (*key, name) in results})
            for key in keys]


def names_of(results):
    """Contenders in the order in which they first ran, Rondo's last."""
    names = list(dict.fromkeys(key[4] for key in results))
    return sorted(names, key=lambda name: name.startswith(OURS))


def figure(value):
    return "-" if value is None else f"{value:.2f}"


def table(results, brief=False):
    """The lines of the Markdown table; brief: of the peers only the fastest, by name."""
    names = names_of(results)
    ours = [name for name in names if name.startswith(OURS)]
    shown = ours if brief else names
    lines = ["| collective | ranks | data | size | fastest peer | its us | " +
             " | ".join(f"{name}, us" for name in shown) + " | " +
             " | ".join(f"{name} / fastest" for name in ours) + " |",
             "|---|---|---|---|---|---:|" + "---:|" * (len(shown) + len(ours))]
    for row in rows_of(results):
        figures = [figure(row.medians.get(row.best)), *(figure(row.medians.get(name)) for name in shown),
                   *(figure(row.ratio(name)) for name in ours)]
        lines.append(f"| {row.collective} | {row.ranks} | {row.mode} | {size_text(row.size)} | {row.best or '-'} | " +
                     " | ".join(figures) + " |")
    return lines


class Panel:
    """One chart of the SVG: a line a contender over sizes, as times of the fastest peer's, both axes logarithmic."""

    WIDTH, HEIGHT, LEFT, TOP = 460, 260, 48, 28

    def __init__(self, rows, at):
        self._rows = rows
        self._x0, self._y0 = at
        ratios = [ratio for row in rows for name in row.medians if (ratio := row.ratio(name))]
        self._low = math.floor(math.log2(min(ratios + [1])))
        self._high = math.ceil(math.log2(max(ratios + [2])))

    def x(self, index):
        return self._x0 + self.LEFT + (self.WIDTH - self.LEFT - 28) * (index / max(1, len(self._rows) - 1))

    def y(self, ratio):
        share = (math.log2(ratio) - self._low) / (self._high - self._low)
        return self._y0 + self.TOP + (self.HEIGHT - self.TOP - 36) * (1 - share)

    def draw(self, colour_of):
        row = self._rows[0]
        bottom = self.y(2.0 ** self._low)
        yield text(self._x0 + self.LEFT, self._y0 + 16, f"{row.collective}, {row.ranks} ranks, {row.mode}", bold=True)
        for power in range(self._low, self._high + 1):
            height = self.y(2.0 ** power)
            label = f"{2 ** power}x" if power >= 0 else f"1/{2 ** -power}x"
            yield line(self.x(0), height, self.x(len(self._rows) - 1), height, "#000" if power == 0 else "#ddd")
            yield text(self._x0 + self.LEFT - 6, height + 4, label, anchor="end")
        for index, row in enumerate(self._rows):
            yield text(self.x(index), bottom + 16, size_text(row.size).replace(" ", ""), anchor="middle", size=9)
        for name in {name: None for row in self._rows for name in row.medians}:
            points = [(self.x(index), self.y(ratio)) for index, row in enumerate(self._rows)
                      if (ratio := row.ratio(name))]
            dashes = ' stroke-dasharray="4 3"' if name.endswith("tuned") else ""
            width = 2.5 if name.startswith(OURS) else 1.2
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            yield (f'<polyline points="{path}" fill="none" stroke="{colour_of(name)}" stroke-width="{width}"{dashes}>'
                   f"<title>{name}</title></polyline>")


def text(x, y, words, anchor="start", size=11, bold=False):
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{weight}>{words}</text>'


def line(x1, y1, x2, y2, colour):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def svg(results):
    """One panel a collective, number of ranks and data, two abreast; below, whose line is whose."""
    groups = {}
    for row in rows_of(results):
        if row.best:
            groups.setdefault((row.collective, row.ranks, row.mode), []).append(row)
    names = names_of(results)
    families = list(dict.fromkeys(name.removesuffix(" tuned") for name in names))
    colours = {family: COLOURS[index % len(COLOURS)] for index, family in enumerate(families)}

    def colour_of(name):
        return colours[name.removesuffix(" tuned")]

    body = []
    for number, rows in enumerate(groups.values()):
        panel = Panel(rows, (number % 2 * Panel.WIDTH, number // 2 * Panel.HEIGHT))
        body.extend(panel.draw(colour_of))
    top = math.ceil(len(groups) / 2) * Panel.HEIGHT
    for number, name in enumerate(names):
        x, y = 48 + number % 4 * 215, top + 14 + number // 4 * 18
        dashes = ' stroke-dasharray="4 3"' if name.endswith("tuned") else ""
        body.append(f'<g{dashes} stroke-width="2.5">{line(x, y - 4, x + 24, y - 4, colour_of(name))}</g>')
        body.append(text(x + 30, y, name))
    height = top + 24 + math.ceil(len(names) / 4) * 18
    body.append(text(48, height - 6, "Time of a call by the fastest peer's at that size: lower is faster.", size=10))
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * Panel.WIDTH}" height="{height}" '
                      'font-family="sans-serif"><rect width="100%" height="100%" fill="#fff"/>', *body, "</svg>", ""])
