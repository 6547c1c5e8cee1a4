// The text of a configuration file: which key has which value. What keys there are is daemon_options.cc's.
//
//   # a comment, also behind a value
//   capacity = 8GiB
//   socket = "/run/my sockets/a # b.sock"
#ifndef TENSORBROKER_SERVER_CONFIG_FILE_H_
#define TENSORBROKER_SERVER_CONFIG_FILE_H_

#include <istream>
#include <string>
#include <vector>

#include "tensorbroker/base/status.h"

namespace tensorbroker {

struct ConfigEntry {
  std::string key;
  std::string value;
};

// One `key = value` a line, as ordered in the file. A value is all up to the line's end or a '#' after a space, without
// the spaces around it; or what is between two quotes (" or '), taken as it is. It may be empty.
// kInvalidArgument  a line of another form, or a key set twice: the text names the line
StatusOr<std::vector<ConfigEntry>> ParseConfig(std::istream& text);

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_CONFIG_FILE_H_
