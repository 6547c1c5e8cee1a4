#include "tensorbroker/cli/table.h"

#include <algorithm>
#include <numeric>

#include "tensorbroker/cli/text.h"

namespace tensorbroker::cli {
namespace {

constexpr int kGap = 2;
constexpr int kLeastWidth = 8;  // a column that shrinks stays readable

}  // namespace

// As wide as the widest cell; where that passes `limit` (> 0), the widest column that shrinks gives way first.
std::vector<int> Table::Widths(int limit) const {
  std::vector<int> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    int width = DisplayWidth(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[c].text));
    widths.push_back(width);
  }
  if (limit <= 0) return widths;
  int excess =
      std::accumulate(widths.begin(), widths.end(), 0) + kGap * (static_cast<int>(widths.size()) - 1) - limit;
  while (excess > 0) {
    size_t widest = columns_.size();
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (!columns_[c].shrinks || widths[c] <= kLeastWidth) continue;
      if (widest == columns_.size() || widths[c] > widths[widest]) widest = c;
    }
    if (widest == columns_.size()) break;
    --widths[widest];
    --excess;
  }
  return widths;
}

std::string Table::Render(const Console& console) const {
  const std::vector<int> widths = Widths(console.width);
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      const Cell& cell = cell_of(c);
      const std::string shown = Cut(cell.text, widths[c]);
      const auto pad = static_cast<size_t>(std::max(0, widths[c] - DisplayWidth(shown)));
      const bool last = c + 1 == columns_.size();
      if (columns_[c].align == Align::kRight) text.append(pad, ' ');
      text += console.Paint(cell.style, shown);
      if (columns_[c].align == Align::kLeft && !last) text.append(pad, ' ');
      if (!last) text.append(kGap, ' ');
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    text += '\n';
  };
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title, Style::kBold);
  add_line([&](size_t c) -> const Cell& { return titles[c]; });
  for (const auto& row : rows_) add_line([&](size_t c) -> const Cell& { return row[c]; });
  return text;
}

}  // namespace tensorbroker::cli
