#include "tensorbroker/proto/convert.h"

#include <fmt/format.h>

#include <limits>

namespace tensorbroker {
namespace {

// Wire numbers are frozen; the C++ enum counts from 0 in the same order, and this table pins that.
static_assert(static_cast<int>(DType::kBool) + 1 == v1::DTYPE_BOOL);
static_assert(static_cast<int>(DType::kUInt8) + 1 == v1::DTYPE_UINT8);
static_assert(static_cast<int>(DType::kUInt16) + 1 == v1::DTYPE_UINT16);
static_assert(static_cast<int>(DType::kUInt32) + 1 == v1::DTYPE_UINT32);
static_assert(static_cast<int>(DType::kUInt64) + 1 == v1::DTYPE_UINT64);
static_assert(static_cast<int>(DType::kInt8) + 1 == v1::DTYPE_INT8);
static_assert(static_cast<int>(DType::kInt16) + 1 == v1::DTYPE_INT16);
static_assert(static_cast<int>(DType::kInt32) + 1 == v1::DTYPE_INT32);
static_assert(static_cast<int>(DType::kInt64) + 1 == v1::DTYPE_INT64);
static_assert(static_cast<int>(DType::kFloat16) + 1 == v1::DTYPE_FLOAT16);
static_assert(static_cast<int>(DType::kBFloat16) + 1 == v1::DTYPE_BFLOAT16);
static_assert(static_cast<int>(DType::kFloat8E4M3FN) + 1 == v1::DTYPE_FLOAT8_E4M3FN);
static_assert(static_cast<int>(DType::kFloat8E5M2) + 1 == v1::DTYPE_FLOAT8_E5M2);
static_assert(static_cast<int>(DType::kFloat32) + 1 == v1::DTYPE_FLOAT32);
static_assert(static_cast<int>(DType::kFloat64) + 1 == v1::DTYPE_FLOAT64);
static_assert(static_cast<int>(DType::kComplex64) + 1 == v1::DTYPE_COMPLEX64);
static_assert(static_cast<int>(DType::kComplex128) + 1 == v1::DTYPE_COMPLEX128);

static_assert(static_cast<int>(StorageState::kQuarantined) == v1::STORAGE_STATE_QUARANTINED);
static_assert(static_cast<int>(EventKind::kLagged) == v1::EVENT_KIND_LAGGED);

constexpr int64_t kStorageAlignment = 64;

// An enum of a newer peer shows as unspecified instead of as a wrong one.
template <typename To>
To EnumOrUnspecified(int value, To last) {
  return value < 0 || value > static_cast<int>(last) ? To{} : static_cast<To>(value);
}

StatusOr<NameBinding> FromProto(const v1::NameBinding& binding, Device device) {
  NameBinding out;
  TB_ASSIGN_OR_RETURN(out.header, FromProto(binding.header(), device));
  out.name = binding.name();
  out.version = binding.version();
  out.published_unix_ns = binding.published_unix_ns();
  out.persistent = binding.persistent();
  out.expires_unix_ns = binding.expires_unix_ns();
  out.publisher_pid = binding.publisher_pid();
  out.publisher_alive = binding.publisher_alive();
  return out;
}

void ToProto(const NameBinding& binding, v1::NameBinding* out) {
  out->set_name(binding.name);
  out->set_version(binding.version);
  tensorbroker::ToProto(binding.header, out->mutable_header());
  out->set_published_unix_ns(binding.published_unix_ns);
  out->set_persistent(binding.persistent);
  out->set_expires_unix_ns(binding.expires_unix_ns);
  out->set_publisher_pid(binding.publisher_pid);
  out->set_publisher_alive(binding.publisher_alive);
}

StatusOr<Holder> FromProto(const v1::Holder& holder) {
  Holder out;
  TB_ASSIGN_OR_RETURN(out.access, tensorbroker::FromProto(holder.access()));
  out.session = IdFromProto<SessionIdTag>(holder.session());
  out.pid = holder.pid();
  out.uid = holder.uid();
  out.label = holder.label();
  out.command = holder.command();
  out.since_unix_ns = holder.since_unix_ns();
  out.quarantined = holder.quarantined();
  return out;
}

void ToProto(const Holder& holder, v1::Holder* out) {
  ToProto(holder.session, out->mutable_session());
  out->set_pid(holder.pid);
  out->set_uid(holder.uid);
  out->set_label(holder.label);
  out->set_command(holder.command);
  out->set_since_unix_ns(holder.since_unix_ns);
  out->set_access(tensorbroker::ToProto(holder.access));
  out->set_quarantined(holder.quarantined);
}

}  // namespace

void ToProto(Device device, v1::Device* out) {
  out->set_type(device.type == DeviceType::kCuda ? v1::DEVICE_TYPE_CUDA : v1::DEVICE_TYPE_CPU);
  out->set_index(device.index);
}

StatusOr<Device> FromProto(const v1::Device& device) {
  if (device.type() != v1::DEVICE_TYPE_CPU && device.type() != v1::DEVICE_TYPE_CUDA) {
    return InvalidArgumentError(fmt::format("device type {} is unknown", static_cast<int>(device.type())));
  }
  if (device.index() < 0 || device.index() > std::numeric_limits<int16_t>::max()) {
    return InvalidArgumentError(fmt::format("device index {} is out of range", device.index()));
  }
  if (device.type() == v1::DEVICE_TYPE_CPU && device.index() != 0) {
    return InvalidArgumentError(fmt::format("device cpu has no index {}", device.index()));
  }
  return Device{device.type() == v1::DEVICE_TYPE_CUDA ? DeviceType::kCuda : DeviceType::kCpu,
                static_cast<int16_t>(device.index())};
}

void ToProto(const Header& header, v1::Header* out) {
  out->set_dtype(static_cast<v1::DType>(static_cast<int>(header.dtype()) + 1));
  out->mutable_shape()->Assign(header.shape().begin(), header.shape().end());
  out->mutable_strides()->Assign(header.strides().begin(), header.strides().end());
  out->set_offset_bytes(header.offset_bytes());
  out->set_requires_grad(header.requires_grad());
}

StatusOr<Header> FromProto(const v1::Header& header, Device device) {
  if (header.dtype() <= v1::DTYPE_UNSPECIFIED || header.dtype() > v1::DTYPE_COMPLEX128) {
    return InvalidArgumentError(fmt::format("dtype {} is unknown", static_cast<int>(header.dtype())));
  }
  if (header.shape_size() > kMaxRank || header.strides_size() > kMaxRank) {  // before anything is copied
    return InvalidArgumentError(
        fmt::format("a header of {} sizes and {} strides has too many dimensions: at most {}",
                    header.shape_size(), header.strides_size(), kMaxRank));
  }
  HeaderFields fields;
  fields.shape.assign(header.shape().begin(), header.shape().end());
  fields.strides.assign(header.strides().begin(), header.strides().end());
  fields.offset_bytes = header.offset_bytes();
  fields.device = device;
  fields.dtype = static_cast<DType>(static_cast<int>(header.dtype()) - 1);
  fields.requires_grad = header.requires_grad();
  return Header::Make(std::move(fields));
}

v1::Access ToProto(GrantAccess access) {
  return access == GrantAccess::kReadWrite ? v1::ACCESS_READ_WRITE : v1::ACCESS_READ_ONLY;
}

StatusOr<GrantAccess> FromProto(v1::Access access) {
  if (access == v1::ACCESS_READ_ONLY) return GrantAccess::kReadOnly;
  if (access == v1::ACCESS_READ_WRITE) return GrantAccess::kReadWrite;
  return InvalidArgumentError(fmt::format("access {} is unknown", static_cast<int>(access)));
}

void ToProto(const Grant& grant, v1::Grant* out) {
  ToProto(grant.storage, out->mutable_storage());
  out->set_size_bytes(grant.size_bytes);
  ToProto(grant.device, out->mutable_device());
  if (grant.segment) ToProto(grant.segment, out->mutable_segment());
  out->set_segment_offset_bytes(grant.segment_offset_bytes);
  out->set_segment_size_bytes(grant.segment_size_bytes);
  out->set_access(ToProto(grant.access));
}

StatusOr<Grant> FromProto(const v1::Grant& grant) {
  Grant out;
  TB_ASSIGN_OR_RETURN(out.device, FromProto(grant.device()));
  TB_ASSIGN_OR_RETURN(out.access, FromProto(grant.access()));
  out.storage = IdFromProto<StorageIdTag>(grant.storage());
  out.segment = IdFromProto<SegmentIdTag>(grant.segment());
  out.size_bytes = grant.size_bytes();
  out.segment_offset_bytes = grant.segment_offset_bytes();
  out.segment_size_bytes = grant.segment_size_bytes();
  const bool inside = out.size_bytes >= 0 && out.segment_offset_bytes >= 0 && out.segment_size_bytes >= 0 &&
                      out.segment_offset_bytes <= out.segment_size_bytes &&
                      out.size_bytes <= out.segment_size_bytes - out.segment_offset_bytes;
  if (!out.storage || !inside || out.segment_offset_bytes % kStorageAlignment != 0 ||
      static_cast<bool>(out.segment) != (out.size_bytes > 0)) {
    return InvalidArgumentError(
        fmt::format("the grant of Storage {} is malformed: {} bytes at {} of a Segment of {}",
                    ToString(out.storage), out.size_bytes, out.segment_offset_bytes, out.segment_size_bytes));
  }
  return out;
}

void ToProto(const Returned& returned, v1::Returned* out) {
  ToProto(returned.storage, out->mutable_storage());
  out->set_grants(returned.grants);
}

Returned FromProto(const v1::Returned& returned) {
  return {IdFromProto<StorageIdTag>(returned.storage()), returned.grants()};
}

void ToProto(const Releases& releases, v1::Releases* out) {
  out->set_number(releases.number);
  for (const Returned& each : releases.returned) ToProto(each, out->add_returned());
  out->mutable_abandoned_calls()->Add(releases.abandoned_calls.begin(), releases.abandoned_calls.end());
}

Releases FromProto(const v1::Releases& releases) {
  Releases out;
  out.number = releases.number();
  out.returned.reserve(static_cast<size_t>(releases.returned_size()));
  for (const v1::Returned& each : releases.returned()) out.returned.push_back(FromProto(each));
  out.abandoned_calls.assign(releases.abandoned_calls().begin(), releases.abandoned_calls().end());
  return out;
}

void ToProto(const OpenedSession& opened, v1::OpenSessionReply* out) {
  ToProto(opened.id, out->mutable_session());
  out->set_session_token(std::string(opened.token.bytes()));
  out->set_lease_token(std::string(opened.lease_token.bytes()));
  out->set_instance(opened.instance);
  out->set_epoch(opened.epoch);
  out->set_protocol_version(opened.protocol_version);
  out->set_broker_version(opened.broker_version);
  out->set_broker_pid(opened.broker_pid);
}

StatusOr<OpenedSession> FromProto(const v1::OpenSessionReply& reply) {
  OpenedSession opened;
  opened.id = IdFromProto<SessionIdTag>(reply.session());
  TB_ASSIGN_OR_RETURN(opened.token, Token::FromBytes(reply.session_token()));
  TB_ASSIGN_OR_RETURN(opened.lease_token, Token::FromBytes(reply.lease_token()));
  opened.instance = reply.instance();
  opened.epoch = reply.epoch();
  opened.protocol_version = reply.protocol_version();
  opened.broker_version = reply.broker_version();
  opened.broker_pid = reply.broker_pid();
  return opened;
}

void ToProto(const CreateCall& call, v1::CreateRequest* out) {
  out->set_session(call.token);
  out->set_call_id(call.call_id);
  out->set_size_bytes(call.size_bytes);
  if (call.header) ToProto(*call.header, out->mutable_header());
  ToProto(call.device, out->mutable_device());
  if (!call.releases.empty()) ToProto(call.releases, out->mutable_releases());
}

StatusOr<CreateCall> FromProto(const v1::CreateRequest& request) {
  CreateCall call;
  TB_ASSIGN_OR_RETURN(call.device, FromProto(request.device()));
  if (request.has_header()) {
    TB_ASSIGN_OR_RETURN(call.header, FromProto(request.header(), call.device));
  }
  call.token = request.session();
  call.call_id = request.call_id();
  call.size_bytes = request.size_bytes();
  call.releases = FromProto(request.releases());
  return call;
}

void ToProto(const Created& created, v1::CreateReply* out) {
  ToProto(created.grant, out->mutable_grant());
  out->set_zeroed(created.zeroed);
}

StatusOr<Created> FromProto(const v1::CreateReply& reply) {
  Created created;
  TB_ASSIGN_OR_RETURN(created.grant, FromProto(reply.grant()));
  created.zeroed = reply.zeroed();
  return created;
}

void ToProto(const StorageRecord& record, v1::StorageRecord* out) {
  ToProto(record.id, out->mutable_id());
  out->set_size_bytes(record.size_bytes);
  out->set_reserved_bytes(record.reserved_bytes);
  ToProto(record.device, out->mutable_device());
  out->set_state(static_cast<v1::StorageState>(record.state));
  if (record.header) ToProto(*record.header, out->mutable_header());
  for (const NameBinding& binding : record.names) ToProto(binding, out->add_names());
  out->set_created_unix_ns(record.created_unix_ns);
  out->set_creator_pid(record.creator_pid);
  out->set_owner_uid(record.owner_uid);
  out->set_holder_count(record.holder_count);
  for (const Holder& holder : record.holders) ToProto(holder, out->add_holders());
  out->set_other_uids_holders(record.other_uids_holders);
  out->mutable_in_flight_from_pids()->Assign(record.in_flight_from_pids.begin(),
                                             record.in_flight_from_pids.end());
  if (record.segment) ToProto(record.segment, out->mutable_segment());
  out->set_segment_kind(record.segment_kind);
  out->set_huge_pages(record.huge_pages);
  out->mutable_numa_nodes()->Assign(record.numa_nodes.begin(), record.numa_nodes.end());
}

StatusOr<StorageRecord> FromProto(const v1::StorageRecord& record) {
  StorageRecord out;
  TB_ASSIGN_OR_RETURN(out.device, FromProto(record.device()));
  out.id = IdFromProto<StorageIdTag>(record.id());
  out.size_bytes = record.size_bytes();
  out.reserved_bytes = record.reserved_bytes();
  out.state = EnumOrUnspecified(record.state(), StorageState::kQuarantined);
  if (record.has_header()) {
    TB_ASSIGN_OR_RETURN(out.header, FromProto(record.header(), out.device));
  }
  out.names.reserve(static_cast<size_t>(record.names_size()));
  for (const v1::NameBinding& binding : record.names()) {
    TB_ASSIGN_OR_RETURN(NameBinding converted, FromProto(binding, out.device));
    out.names.push_back(std::move(converted));
  }
  out.created_unix_ns = record.created_unix_ns();
  out.creator_pid = record.creator_pid();
  out.owner_uid = record.owner_uid();
  out.holder_count = record.holder_count();
  for (const v1::Holder& holder : record.holders()) {
    TB_ASSIGN_OR_RETURN(Holder converted, FromProto(holder));
    out.holders.push_back(std::move(converted));
  }
  out.other_uids_holders = record.other_uids_holders();
  out.in_flight_from_pids.assign(record.in_flight_from_pids().begin(), record.in_flight_from_pids().end());
  out.segment = IdFromProto<SegmentIdTag>(record.segment());
  out.segment_kind = record.segment_kind();
  out.huge_pages = record.huge_pages();
  out.numa_nodes.assign(record.numa_nodes().begin(), record.numa_nodes().end());
  return out;
}

void ToProto(const SessionRecord& record, v1::SessionRecord* out) {
  ToProto(record.id, out->mutable_id());
  out->set_pid(record.pid);
  out->set_uid(record.uid);
  out->set_gid(record.gid);
  out->set_label(record.label);
  out->set_command(record.command);
  out->set_since_unix_ns(record.since_unix_ns);
  out->set_storages(record.storages);
  out->set_bytes(record.bytes);
  out->set_quarantined(record.quarantined);
  for (const StorageId& id : record.held) ToProto(id, out->add_held());
}

SessionRecord FromProto(const v1::SessionRecord& record) {
  SessionRecord out;
  out.id = IdFromProto<SessionIdTag>(record.id());
  out.pid = record.pid();
  out.uid = record.uid();
  out.gid = record.gid();
  out.label = record.label();
  out.command = record.command();
  out.since_unix_ns = record.since_unix_ns();
  out.storages = record.storages();
  out.bytes = record.bytes();
  out.quarantined = record.quarantined();
  for (const v1::Id& id : record.held()) out.held.push_back(IdFromProto<StorageIdTag>(id));
  return out;
}

void ToProto(const Event& event, v1::Event* out) {
  out->set_kind(static_cast<v1::EventKind>(event.kind));
  out->set_unix_ns(event.unix_ns);
  if (event.storage) ToProto(event.storage, out->mutable_storage());
  out->set_size_bytes(event.size_bytes);
  out->set_name(event.name);
  out->set_new_name(event.new_name);
  out->set_version(event.version);
  if (event.session) ToProto(event.session, out->mutable_session());
  out->set_pid(event.pid);
  out->set_label(event.label);
  out->set_lost(event.lost);
}

Event FromProto(const v1::Event& event) {
  Event out;
  out.kind = EnumOrUnspecified(event.kind(), EventKind::kLagged);
  out.unix_ns = event.unix_ns();
  out.storage = IdFromProto<StorageIdTag>(event.storage());
  out.size_bytes = event.size_bytes();
  out.name = event.name();
  out.new_name = event.new_name();
  out.version = event.version();
  out.session = IdFromProto<SessionIdTag>(event.session());
  out.pid = event.pid();
  out.label = event.label();
  out.lost = event.lost();
  return out;
}

void ToProto(const BrokerInfo& info, v1::BrokerInfo* out) {
  out->set_version(info.version);
  out->set_instance(info.instance);
  out->set_epoch(info.epoch);
  out->set_pid(info.pid);
  out->set_uid(info.uid);
  out->set_started_unix_ns(info.started_unix_ns);
  out->set_capacity_bytes(info.capacity_bytes);
  out->set_capacity_bound_by(info.capacity_bound_by);
  out->set_used_bytes(info.used_bytes);
  out->set_quarantined_bytes(info.quarantined_bytes);
  out->set_storages(info.storages);
  out->set_names(info.names);
  out->set_sessions(info.sessions);
  out->set_memory(info.memory);
  out->set_huge_pages(info.huge_pages);
  for (const Limit& limit : info.limits) {
    v1::Limit* added = out->add_limits();
    added->set_name(limit.name);
    added->set_value(limit.value);
    added->set_used(limit.used);
    added->set_note(limit.note);
  }
  for (const Feature& feature : info.features) {
    v1::Feature* added = out->add_features();
    added->set_name(feature.name);
    added->set_present(feature.present);
    added->set_note(feature.note);
  }
  for (const Gpu& gpu : info.gpus) {
    v1::Gpu* added = out->add_gpus();
    added->set_uuid(gpu.uuid);
    added->set_name(gpu.name);
    added->set_memory_bytes(gpu.memory_bytes);
  }
  out->set_gpu_note(info.gpu_note);
  out->set_filesystem_size_bytes(info.filesystem_size_bytes);
  out->set_filesystem_free_bytes(info.filesystem_free_bytes);
  for (const std::string& warning : info.warnings) out->add_warnings(warning);
}

BrokerInfo FromProto(const v1::BrokerInfo& info) {
  BrokerInfo out;
  out.version = info.version();
  out.instance = info.instance();
  out.epoch = info.epoch();
  out.pid = info.pid();
  out.uid = info.uid();
  out.started_unix_ns = info.started_unix_ns();
  out.capacity_bytes = info.capacity_bytes();
  out.capacity_bound_by = info.capacity_bound_by();
  out.used_bytes = info.used_bytes();
  out.quarantined_bytes = info.quarantined_bytes();
  out.storages = info.storages();
  out.names = info.names();
  out.sessions = info.sessions();
  out.memory = info.memory();
  out.huge_pages = info.huge_pages();
  for (const v1::Limit& limit : info.limits()) {
    out.limits.push_back({limit.name(), limit.value(), limit.used(), limit.note()});
  }
  for (const v1::Feature& feature : info.features()) {
    out.features.push_back({feature.name(), feature.present(), feature.note()});
  }
  for (const v1::Gpu& gpu : info.gpus()) out.gpus.push_back({gpu.uuid(), gpu.name(), gpu.memory_bytes()});
  out.gpu_note = info.gpu_note();
  out.filesystem_size_bytes = info.filesystem_size_bytes();
  out.filesystem_free_bytes = info.filesystem_free_bytes();
  out.warnings.assign(info.warnings().begin(), info.warnings().end());
  return out;
}

}  // namespace tensorbroker
