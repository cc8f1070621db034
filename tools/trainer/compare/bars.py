"""A bar chart as SVG: groups of horizontal bars, each with its name and its figure."""
from xml.sax.saxutils import escape

WIDTH, NAME_WIDTH, ROW, HEAD = 720, 220, 22, 34
COLOURS = ("#5b7fa6", "#8aa35a", "#c08552", "#9a6fb0", "#b5504f", "#6f7f86")


def draw_bars(path, unit, groups):
    """`groups`: {title: {name: figure}}.  All bars share one scale."""
    largest = max((figure for bars in groups.values() for figure in bars.values()), default=1) or 1
    parts, y = [], 24
    for title, bars in groups.items():
        parts.append(f'<text x="8" y="{y}" font-weight="bold">{escape(title)} ({escape(unit)})</text>')
        y += HEAD - 22
        for index, (name, figure) in enumerate(bars.items()):
            length = (WIDTH - NAME_WIDTH - 90) * figure / largest
            colour = COLOURS[index % len(COLOURS)]
            parts.append(f'<text x="{NAME_WIDTH - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>'
                         f'<rect x="{NAME_WIDTH}" y="{y + 2}" width="{length:.1f}" height="{ROW - 6}" fill="{colour}"/>'
                         f'<text x="{NAME_WIDTH + length + 6:.1f}" y="{y + 14}">{figure:.1f}</text>')
            y += ROW
        y += HEAD
    body = "\n".join(parts)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - 12}" '
                   f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
                   f"{body}\n</svg>\n")
