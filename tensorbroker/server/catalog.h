// The catalog: names bound to headers over Storages, with versions, lifetimes and time limits.
//
// It knows no Storage and no Session but by serial: the Broker keeps the counts that follow from it.
#ifndef TENSORBROKER_SERVER_CATALOG_H_
#define TENSORBROKER_SERVER_CATALOG_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/server/limits.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker {

struct Binding {
  uint64_t storage = 0;  // serial
  uint64_t version = 0;
  std::shared_ptr<const Header> header;
  uid_t owner_uid = 0;
  uint64_t publisher = 0;  // session's serial
  int32_t publisher_pid = 0;
  bool persistent = true;
  int64_t published_unix_ns = 0;
  TimePoint expires = TimePoint::max();
  int64_t expires_unix_ns = 0;
};

// The rules of docs/guide/concepts.md, "Names". Who asks is `uid` and `session`; `alive` tells whether a publisher's session still lives.
// Thread-compatible: the Broker's lock guards it.
class Catalog {
 public:
  using Map = std::map<std::string, Binding, std::less<>>;
  using AliveFn = std::function<bool(uint64_t session)>;

  Catalog(const Limits& limits, AliveFn alive) : limits_(limits), alive_(std::move(alive)) {}

  // The binding that `uid` may see; null where there is none.
  const Binding* Find(std::string_view name, uid_t uid) const;

  struct Asker {
    uid_t uid = 0;
    uint64_t session = 0;
    int64_t now_unix_ns = 0;  // for the age in messages
  };

  // Whether `asker` may bind the name. `call` begins the message.
  // kAlreadyExists      a live session of the same uid published it and `replace` is not said: its pid and age
  // kPermissionDenied   the name is another uid's
  // kResourceExhausted  the uid has as many names as the limit says
  Status CheckBind(std::string_view call, std::string_view name, const Asker& asker, bool replace) const;

  struct Change {
    Map::const_iterator now;        // end() where the name is gone
    std::optional<Binding> before;  // what the name was bound to
  };
  // Binds what CheckBind allowed. binding.version is set: 1, or one more than what stood there.
  Change Bind(std::string_view name, Binding binding);

  // Removes what is there; the Broker has judged already.
  std::optional<Binding> Remove(std::string_view name);

  // The names that are due at `now`, at most `count`.
  std::vector<std::string> Due(TimePoint now, size_t count) const;
  TimePoint next_due() const { return due_.empty() ? TimePoint::max() : due_.begin()->first; }
  // The names that go with the session, at most `count`.
  std::vector<std::string> OfSession(uint64_t session, size_t count) const;

  const Map& names() const { return names_; }
  size_t size() const { return names_.size(); }
  size_t CountOf(uid_t uid) const;
  bool alive(uint64_t session) const { return alive_(session); }

 private:
  void Link(const std::string& name, const Binding& binding);
  void Unlink(const std::string& name, const Binding& binding);

  const Limits& limits_;
  const AliveFn alive_;
  Map names_;
  std::set<std::pair<TimePoint, std::string_view>> due_;  // views of names_' keys
  std::unordered_map<uint64_t, std::set<std::string_view>>
      with_session_;  // names that go with their publisher
  std::unordered_map<uid_t, size_t> counts_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_CATALOG_H_
