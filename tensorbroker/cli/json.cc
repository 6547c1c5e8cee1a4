#include "tensorbroker/cli/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tensorbroker::cli {
namespace {

using Json = nlohmann::ordered_json;

// Bytes that are no UTF-8 become U+FFFD.
std::string Text(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

Json OfDims(const Dims& dims) {
  Json array = Json::array();
  for (const int64_t size : dims) array.push_back(size);
  return array;
}

Json OfHeader(const Header& header) {
  return {{"dtype", Name(header.dtype())},
          {"shape", OfDims(header.shape())},
          {"strides", OfDims(header.strides())},
          {"offset_bytes", header.offset_bytes()},
          {"device", ToString(header.device())},
          {"requires_grad", header.requires_grad()},
          {"numel", header.numel()},
          {"nbytes", header.nbytes()},
          {"contiguous", header.is_contiguous()}};
}

Json OfError(std::string_view code, std::string_view message) {
  return {{"code", code}, {"message", message}};
}

template <typename Tag>
Json OfId(const Id<Tag>& id) {
  return id ? Json(ToString(id)) : Json(nullptr);
}

Json OfBinding(const NameBinding& binding) {
  return {{"name", binding.name},
          {"version", binding.version},
          {"header", OfHeader(binding.header)},
          {"published_unix_ns", binding.published_unix_ns},
          {"persistent", binding.persistent},
          {"expires_unix_ns", binding.expires_unix_ns == 0 ? Json(nullptr) : Json(binding.expires_unix_ns)},
          {"publisher_pid", binding.publisher_pid},
          {"publisher_alive", binding.publisher_alive}};
}

Json OfHolder(const Holder& holder) {
  return {{"session", OfId(holder.session)},
          {"pid", holder.pid},
          {"uid", holder.uid},
          {"label", holder.label},
          {"command", holder.command},
          {"since_unix_ns", holder.since_unix_ns},
          {"access", holder.access == GrantAccess::kReadWrite ? "read-write" : "read-only"},
          {"quarantined", holder.quarantined}};
}

Json OfStorage(const StorageRecord& storage) {
  Json names = Json::array();
  for (const NameBinding& binding : storage.names) names.push_back(OfBinding(binding));
  Json holders = Json::array();
  for (const Holder& holder : storage.holders) holders.push_back(OfHolder(holder));
  return {
      {"id", OfId(storage.id)},
      {"size_bytes", storage.size_bytes},
      {"reserved_bytes", storage.reserved_bytes},
      {"device", ToString(storage.device)},
      {"state", Name(storage.state)},
      {"header", storage.header ? OfHeader(*storage.header) : Json(nullptr)},
      {"names", std::move(names)},
      {"created_unix_ns", storage.created_unix_ns},
      {"creator_pid", storage.creator_pid},
      {"owner_uid", storage.owner_uid},
      {"holder_count", storage.holder_count},
      {"holders", std::move(holders)},
      {"other_uids_holders", storage.other_uids_holders},
      {"in_flight_from_pids", storage.in_flight_from_pids},
      {"segment",
       {{"id", OfId(storage.segment)}, {"kind", storage.segment_kind}, {"huge_pages", storage.huge_pages}}}};
}

}  // namespace

std::string ErrorJson(std::string_view code, std::string_view message) {
  return Text({{"error", OfError(code, message)}});
}

std::string InfoJson(const BrokerInfo& info, const std::string& socket) {
  Json limits = Json::array();
  for (const Limit& limit : info.limits) {
    limits.push_back({{"name", limit.name},
                      {"value", limit.value},
                      {"used", limit.used < 0 ? Json(nullptr) : Json(limit.used)},
                      {"note", limit.note}});
  }
  Json features = Json::array();
  for (const Feature& feature : info.features) {
    features.push_back({{"name", feature.name}, {"present", feature.present}, {"note", feature.note}});
  }
  Json gpus = Json::array();
  for (const Gpu& gpu : info.gpus) {
    gpus.push_back({{"uuid", gpu.uuid}, {"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}});
  }
  return Text({{"version", info.version},
               {"socket", socket},
               {"instance", info.instance},
               {"epoch", fmt::format("{:016x}", info.epoch)},
               {"pid", info.pid},
               {"uid", info.uid},
               {"started_unix_ns", info.started_unix_ns},
               {"capacity_bytes", info.capacity_bytes},
               {"capacity_bound_by", info.capacity_bound_by},
               {"used_bytes", info.used_bytes},
               {"quarantined_bytes", info.quarantined_bytes},
               {"storages", info.storages},
               {"names", info.names},
               {"sessions", info.sessions},
               {"memory", info.memory},
               {"huge_pages", info.huge_pages},
               {"filesystem_size_bytes", info.filesystem_size_bytes},
               {"filesystem_free_bytes", info.filesystem_free_bytes},
               {"limits", std::move(limits)},
               {"features", std::move(features)},
               {"gpus", std::move(gpus)},
               {"gpu_note", info.gpu_note},
               {"warnings", info.warnings}});
}

std::string ListJson(const std::vector<StorageRecord>& storages, int64_t total_bytes) {
  Json array = Json::array();
  for (const StorageRecord& storage : storages) array.push_back(OfStorage(storage));
  return Text({{"storages", std::move(array)}, {"total_bytes", total_bytes}});
}

std::string StatJson(const StorageRecord& storage) {
  return Text({{"storage", OfStorage(storage)},
               {"numa_nodes", storage.numa_nodes.empty() ? Json(nullptr) : Json(storage.numa_nodes)}});
}

std::string WhoJson(const std::vector<SessionRecord>& sessions) {
  Json array = Json::array();
  for (const SessionRecord& session : sessions) {
    Json held = Json::array();
    for (const StorageId& id : session.held) held.push_back(OfId(id));
    array.push_back({{"session", OfId(session.id)},
                     {"pid", session.pid},
                     {"uid", session.uid},
                     {"gid", session.gid},
                     {"label", session.label},
                     {"command", session.command},
                     {"since_unix_ns", session.since_unix_ns},
                     {"storages", session.storages},
                     {"bytes", session.bytes},
                     {"quarantined", session.quarantined},
                     {"held", std::move(held)}});
  }
  return Text({{"processes", std::move(array)}});
}

std::string TensorJson(std::string_view name, StorageId storage, const Header& header) {
  return Text({{"name", name}, {"storage", OfId(storage)}, {"header", OfHeader(header)}});
}

std::string GetJson(std::string_view name, std::string_view file, int64_t bytes_written,
                    const Header& header) {
  return Text(
      {{"name", name}, {"file", file}, {"bytes_written", bytes_written}, {"header", OfHeader(header)}});
}

std::string PrintJson(std::string_view name, const Header& header, std::string_view values) {
  return Text({{"name", name}, {"header", OfHeader(header)}, {"values", values}});
}

std::string RenameJson(std::string_view from, std::string_view to) {
  return Text({{"from", from}, {"to", to}});
}

std::string RemoveJson(const std::vector<Removed>& removed, const std::vector<NotRemoved>& failed) {
  Json array = Json::array();
  for (const Removed& each : removed) {
    if (each.is_id) {
      array.push_back({{"id", each.subject}, {"holders", each.holders}});
    } else {
      array.push_back({{"name", each.subject}});
    }
  }
  Json failures = Json::array();
  for (const NotRemoved& each : failed) {
    failures.push_back(
        {{"subject", each.subject}, {"error", OfError(CodeName(each.error.code()), Message(each.error))}});
  }
  return Text({{"removed", std::move(array)}, {"failed", std::move(failures)}});
}

std::string WatchReadyJson(std::string_view prefix) {
  return Text({{"event", "ready"}, {"prefix", prefix}}, -1);
}

std::string EventJson(const Event& event) {
  Json json = {{"event", Name(event.kind)}, {"unix_ns", event.unix_ns}};
  if (event.storage) {
    json["storage"] = OfId(event.storage);
    json["size_bytes"] = event.size_bytes;
  }
  if (!event.name.empty()) json["name"] = event.name;
  if (!event.new_name.empty()) json["new_name"] = event.new_name;
  if (event.version != 0) json["version"] = event.version;
  if (event.session) {
    json["session"] = OfId(event.session);
    json["pid"] = event.pid;
    json["label"] = event.label;
  }
  if (event.kind == EventKind::kLagged) json["lost"] = event.lost;
  return Text(json, -1);
}

std::string DoctorJson(const std::vector<Finding>& findings, const std::vector<std::string>& checked) {
  Json array = Json::array();
  for (const Finding& finding : findings) {
    array.push_back({{"id", finding.id},
                     {"severity", Name(finding.severity)},
                     {"evidence", finding.evidence},
                     {"remedy", finding.remedy}});
  }
  return Text({{"findings", std::move(array)}, {"checked", checked}});
}

std::string StopJson(int32_t pid, bool ended) { return Text({{"pid", pid}, {"ended", ended}}); }

}  // namespace tensorbroker::cli
