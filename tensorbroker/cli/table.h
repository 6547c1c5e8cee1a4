// Columns that line up.
#ifndef TENSORBROKER_CLI_TABLE_H_
#define TENSORBROKER_CLI_TABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "tensorbroker/cli/console.h"

namespace tensorbroker::cli {

enum class Align : uint8_t { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
  bool shrinks = false;  // may be cut where the terminal is too narrow
};

struct Cell {
  Cell(std::string text, Style style = Style::kPlain) : text(std::move(text)), style(style) {}
  Cell(const char* text, Style style = Style::kPlain) : text(text), style(style) {}

  std::string text;  // Printable
  Style style;
};

// A value. Rows have as many cells as there are columns.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void Add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  size_t size() const { return rows_.size(); }
  // Header line and rows, each ending in a newline, two spaces between columns, nothing after the last one.
  std::string Render(const Console& console) const;

 private:
  std::vector<int> Widths(int limit) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_TABLE_H_
