#include "tensorbroker/server/catalog.h"

#include <fmt/format.h>

#include "tensorbroker/base/name.h"
#include "tensorbroker/base/units.h"
#include "tensorbroker/server/access.h"

namespace tensorbroker {

const Binding* Catalog::Find(std::string_view name, uid_t uid) const {
  const auto it = names_.find(name);
  return it != names_.end() && MaySee(uid, it->second.owner_uid) ? &it->second : nullptr;
}

Status Catalog::CheckBind(std::string_view call, std::string_view name, const Asker& asker,
                          bool replace) const {
  const auto it = names_.find(name);
  if (it != names_.end()) {
    const Binding& there = it->second;
    if (!MaySee(asker.uid, there.owner_uid)) {
      return PermissionDeniedError(fmt::format("{} {}: the name belongs to another user; choose another name",
                                               call, QuoteForMessage(name)));
    }
    if (!replace && there.publisher != asker.session && alive_(there.publisher)) {
      return AlreadyExistsError(fmt::format(
          "{} {}: published {} ago by pid {}, which is alive; say `replace` to publish over it, or choose "
          "another name",
          call, QuoteForMessage(name), HumanDuration(Duration(asker.now_unix_ns - there.published_unix_ns)),
          there.publisher_pid));
    }
    if (there.owner_uid == asker.uid) return OkStatus();
  }
  if (CountOf(asker.uid) >= limits_.names_per_uid) {
    return ResourceExhaustedError(
        fmt::format("{} {}: uid {} has {} names already, which is its limit; unpublish some", call,
                    QuoteForMessage(name), asker.uid, limits_.names_per_uid));
  }
  return OkStatus();
}

Catalog::Change Catalog::Bind(std::string_view name, Binding binding) {
  Change change;
  auto it = names_.find(name);
  if (it == names_.end()) {
    binding.version = 1;
    it = names_.emplace(std::string(name), std::move(binding)).first;
  } else {
    Unlink(it->first, it->second);
    binding.version = it->second.version + 1;
    change.before = std::exchange(it->second, std::move(binding));
  }
  Link(it->first, it->second);
  change.now = it;
  return change;
}

std::optional<Binding> Catalog::Remove(std::string_view name) {
  const auto it = names_.find(name);
  if (it == names_.end()) return std::nullopt;
  Unlink(it->first, it->second);
  Binding binding = std::move(it->second);
  names_.erase(it);
  return binding;
}

void Catalog::Link(const std::string& name, const Binding& binding) {
  ++counts_[binding.owner_uid];
  if (binding.expires != TimePoint::max()) due_.emplace(binding.expires, name);
  if (!binding.persistent) with_session_[binding.publisher].insert(name);
}

void Catalog::Unlink(const std::string& name, const Binding& binding) {
  if (--counts_[binding.owner_uid] == 0) counts_.erase(binding.owner_uid);
  if (binding.expires != TimePoint::max()) due_.erase({binding.expires, name});
  if (binding.persistent) return;
  const auto it = with_session_.find(binding.publisher);
  it->second.erase(name);
  if (it->second.empty()) with_session_.erase(it);
}

std::vector<std::string> Catalog::Due(TimePoint now, size_t count) const {
  std::vector<std::string> names;
  for (auto it = due_.begin(); it != due_.end() && it->first <= now && names.size() < count; ++it) {
    names.emplace_back(it->second);
  }
  return names;
}

std::vector<std::string> Catalog::OfSession(uint64_t session, size_t count) const {
  std::vector<std::string> names;
  const auto it = with_session_.find(session);
  if (it == with_session_.end()) return names;
  for (const std::string_view name : it->second) {
    if (names.size() == count) break;
    names.emplace_back(name);
  }
  return names;
}

size_t Catalog::CountOf(uid_t uid) const {
  const auto it = counts_.find(uid);
  return it == counts_.end() ? 0 : it->second;
}

}  // namespace tensorbroker
