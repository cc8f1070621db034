// Draws a plan as SVG: matches each send with its receive, gives every step a row, and writes boxes and arrows.
#include "tools/plan/drawing.h"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <vector>

#include "plan/text.h"

namespace rondo::tools {
namespace {

using plan::Operation;
using plan::Range;
using plan::Step;

struct Box {
  const Step* step;
  int rank, lane, column;
  int row = -1;
  std::vector<int> after;  // boxes that must stand above: the step before, the senders
};
struct Arrow {
  int from, to;  // boxes
  bool lent, reply;
};
struct Picture {
  std::vector<Box> boxes;
  std::vector<Arrow> arrows;
  std::vector<int> first_column;  // by rank
  int columns = 0, rows = 0;
};

/// One box a step; a strand is a column.
void place(const plan::Run& run, Picture& picture) {
  for (int rank = 0; rank < run.collective.ranks; ++rank) {
    picture.first_column.push_back(picture.columns);
    for (const plan::Strand& strand : run.plans[rank].strands) {
      for (std::size_t i = 0; i < strand.steps.size(); ++i) {
        Box box{&strand.steps[i], rank, strand.lane, picture.columns, -1, {}};
        if (i > 0) box.after.push_back(static_cast<int>(picture.boxes.size()) - 1);
        picture.boxes.push_back(std::move(box));
      }
      ++picture.columns;
    }
  }
}

/// The k-th send on a link meets the k-th receive; a reply meets the wait of its lender.
void connect(Picture& picture) {
  using Key = std::array<int, 3>;
  std::map<Key, std::vector<int>> sends, waits;
  for (int id = 0; id < static_cast<int>(picture.boxes.size()); ++id) {
    const Box& box = picture.boxes[id];
    const bool wait = box.step->operation == Operation::wait;
    for (const int peer : box.step->to) (wait ? waits : sends)[{box.rank, peer, box.lane}].push_back(id);
  }
  std::map<Key, std::size_t> received;
  for (int id = 0; id < static_cast<int>(picture.boxes.size()); ++id)
    for (const int peer : picture.boxes[id].step->from) {
      if (peer == plan::here) continue;
      const Key link{peer, picture.boxes[id].rank, picture.boxes[id].lane};
      const int sender = sends[link][received[link]++];
      picture.boxes[id].after.push_back(sender);
      picture.arrows.push_back({sender, id, picture.boxes[sender].step->operation == Operation::lend, false});
      if (!picture.boxes[id].step->reply) continue;
      const int waiting = waits[link].front();
      picture.boxes[waiting].after.push_back(id);
      picture.arrows.push_back({id, waiting, false, true});
    }
}

void give_rows(Picture& picture) {
  for (bool more = true; more;) {
    more = false;
    for (Box& box : picture.boxes) {
      int row = 0;
      for (const int above : box.after) row = std::max(row, picture.boxes[above].row + 1);
      if (row == box.row) continue;
      box.row = row;
      more = true;
    }
  }
  for (const Box& box : picture.boxes) picture.rows = std::max(picture.rows, box.row + 1);
}

constexpr int column_width = 190, row_height = 74, box_width = 148, box_height = 34, top = 84, left = 12;

int x_of(const Box& box) { return left + box.column * column_width + column_width / 2; }
int y_of(const Box& box) { return top + box.row * row_height; }

/// A colour for each block, as far apart as their number allows.
std::string colour(const plan::Run& run, const Step& step) {
  const Range& range = step.target && step.operation != Operation::lend ? step.target : step.source;
  if (!range) return "#888";
  int blocks = run.collective.blocks;
  for (const plan::Plan& p : run.plans)
    for (const plan::Strand& strand : p.strands)
      for (const Step& s : strand.steps) blocks = std::max({blocks, s.source.first + 1, s.target.first + 1});
  const int hue = blocks == 1 ? 215 : range.first * 360 / blocks;
  return "hsl(" + std::to_string(hue) + ",65%,38%)";
}

std::string short_name(Operation operation) {
  std::string text(name(operation));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

void write_arrow(std::ostream& svg, const plan::Run& run, const Picture& picture, const Arrow& arrow) {
  const Box &from = picture.boxes[arrow.from], &to = picture.boxes[arrow.to];
  const int x0 = x_of(from), y0 = y_of(from) + box_height, x1 = x_of(to), y1 = y_of(to) - 3;
  const int aim = x1 + std::clamp((x0 - x1) / 6, -box_width / 3, box_width / 3);  // arrows from afar land apart
  const Step& carried = arrow.lent ? *to.step : *from.step;
  svg << "<path class='arrow' d='M" << x0 << " " << y0 << " C" << x0 << " " << y0 + 26 << " " << aim << " " << y1 - 26
      << " " << aim << " " << y1 << "' stroke='" << colour(run, carried) << "'"
      << (arrow.lent    ? " stroke-dasharray='6 4'"
          : arrow.reply ? " stroke-dasharray='2 3'"
                        : "")
      << "><title>rank " << from.rank << " to rank " << to.rank
      << (arrow.lent    ? ": lent"
          : arrow.reply ? ": reply"
                        : "")
      << "</title></path>\n";
}

void write_box(std::ostream& svg, const plan::Run& run, const Box& box) {
  const Step& s = *box.step;
  const int x = x_of(box) - box_width / 2, y = y_of(box);
  std::string ranges = text(s.source);
  if (s.source && s.target) ranges += (s.operation == Operation::lend ? ", reply in " : " → ") + text(s.target);
  if (!s.source && s.target) ranges = "→ " + text(s.target);
  svg << "<g><title>" << text(s) << "</title><rect x='" << x << "' y='" << y << "' width='" << box_width << "' height='"
      << box_height << "' rx='5' stroke='" << colour(run, s) << "'" << (s.finish ? " class='complete'" : "")
      << "/><text x='" << x_of(box) << "' y='" << y + (ranges.empty() ? 21 : 14) << "'>" << short_name(s.operation)
      << "</text><text class='range' x='" << x_of(box) << "' y='" << y + 28 << "'>" << ranges << "</text></g>\n";
}

}  // namespace

std::string draw(const plan::Run& run, const std::string& title) {
  Picture picture;
  place(run, picture);
  connect(picture);
  give_rows(picture);
  const int width = 2 * left + picture.columns * column_width, height = top + picture.rows * row_height - 20;
  std::ostringstream svg;
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='" << width << "' height='" << height << "' viewBox='0 0 "
      << width << " " << height << "' font-family='Helvetica, Arial, sans-serif'>\n<style>"
      << "text{font-size:11px;text-anchor:middle;fill:#222}.range{font-size:10.5px;fill:#555}"
      << ".rank{font-size:15px;font-weight:bold}.title{font-size:16px;font-weight:bold;text-anchor:start}"
      << ".note{font-size:11px;fill:#555;text-anchor:start}rect{fill:#fff;stroke-width:1.2}.complete{stroke-width:3}"
      << ".arrow{fill:none;stroke-width:1.7;marker-end:url(#tip);opacity:.85}</style>\n"
      << "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='6' markerHeight='6' orient='auto'>"
      << "<path d='M0 0L8 4L0 8z' fill='#444'/></marker></defs>\n<rect width='100%' height='100%' stroke='none'/>\n"
      << "<text class='title' x='" << left << "' y='24'>" << title << "</text>\n<text class='note' x='" << left
      << "' y='42'>time runs downwards; a colour is a block; thick: the sum is complete; dashed: lent; dotted: reply"
      << "</text>\n";
  for (int rank = 0; rank < run.collective.ranks; ++rank) {
    const int strands = static_cast<int>(run.plans[rank].strands.size());
    const int middle = left + picture.first_column[rank] * column_width + strands * column_width / 2;
    svg << "<text class='rank' x='" << middle << "' y='70'>rank " << rank << "</text>\n<line x1='" << middle << "' y1='"
        << top << "' x2='" << middle << "' y2='" << height - 20 << "' stroke='#ddd'/>\n";
  }
  for (const Arrow& arrow : picture.arrows) write_arrow(svg, run, picture, arrow);
  for (const Box& box : picture.boxes) write_box(svg, run, box);
  svg << "</svg>\n";
  return svg.str();
}

}  // namespace rondo::tools
