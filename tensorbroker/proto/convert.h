// Wire messages to values and back. What a peer sent is checked here, once: ids, names, enums, headers.
//
// Fits of a header into its Storage are CheckFits's, at whoever knows the Storage's size.
#ifndef TENSORBROKER_PROTO_CONVERT_H_
#define TENSORBROKER_PROTO_CONVERT_H_

#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/proto/calls.h"
#include "tensorbroker/proto/records.h"
#include "tensorbroker/tensor/device.h"
#include "tensorbroker/tensor/header.h"
#include "tensorbroker/v1/broker.pb.h"
#include "tensorbroker/v1/types.pb.h"

namespace tensorbroker {

template <typename Tag>
void ToProto(const Id<Tag>& id, v1::Id* out) {
  out->set_epoch(id.epoch);
  out->set_serial(id.serial);
}

template <typename Tag>
Id<Tag> IdFromProto(const v1::Id& id) {
  return {id.epoch(), id.serial()};
}

void ToProto(Device device, v1::Device* out);
// kInvalidArgument  an unknown type, or an index outside int16_t
StatusOr<Device> FromProto(const v1::Device& device);

void ToProto(const Header& header, v1::Header* out);
// The device is the Storage's, which the wire's header does not repeat.
// kInvalidArgument / kOutOfRange  as Header::Make; an unknown dtype
StatusOr<Header> FromProto(const v1::Header& header, Device device);

v1::Access ToProto(GrantAccess access);
// kInvalidArgument  a number that is neither
StatusOr<GrantAccess> FromProto(v1::Access access);

void ToProto(const Grant& grant, v1::Grant* out);
// kInvalidArgument  negative sizes, a Storage that reaches outside its Segment, an offset that is no multiple
// of 64
StatusOr<Grant> FromProto(const v1::Grant& grant);

void ToProto(const Returned& returned, v1::Returned* out);
Returned FromProto(const v1::Returned& returned);

void ToProto(const Releases& releases, v1::Releases* out);
Releases FromProto(const v1::Releases& releases);

void ToProto(const OpenedSession& opened, v1::OpenSessionReply* out);
// kInvalidArgument  a token that is none
StatusOr<OpenedSession> FromProto(const v1::OpenSessionReply& reply);

void ToProto(const CreateCall& call, v1::CreateRequest* out);
// As FromProto of its header and its device.
StatusOr<CreateCall> FromProto(const v1::CreateRequest& request);

void ToProto(const Created& created, v1::CreateReply* out);
// As FromProto of its grant.
StatusOr<Created> FromProto(const v1::CreateReply& reply);

void ToProto(const StorageRecord& record, v1::StorageRecord* out);
StatusOr<StorageRecord> FromProto(const v1::StorageRecord& record);

void ToProto(const SessionRecord& record, v1::SessionRecord* out);
SessionRecord FromProto(const v1::SessionRecord& record);

void ToProto(const Event& event, v1::Event* out);
Event FromProto(const v1::Event& event);

void ToProto(const BrokerInfo& info, v1::BrokerInfo* out);
BrokerInfo FromProto(const v1::BrokerInfo& info);

}  // namespace tensorbroker

#endif  // TENSORBROKER_PROTO_CONVERT_H_
