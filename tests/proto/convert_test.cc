#include "tensorbroker/proto/convert.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <limits>

namespace tensorbroker {
namespace {

using google::protobuf::util::MessageDifferencer;

// Sets each field of `message` (and of messages in it) to a value that is not the default, so that a field
// which a conversion forgets shows as a difference. `seed` makes the values differ.
void FillEveryField(google::protobuf::Message& message, int& seed) {
  const auto* reflection = message.GetReflection();
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    ++seed;
    using Field = google::protobuf::FieldDescriptor;
    switch (field->cpp_type()) {
      case Field::CPPTYPE_MESSAGE: {
        auto* child = field->is_repeated() ? reflection->AddMessage(&message, field)
                                           : reflection->MutableMessage(&message, field);
        FillEveryField(*child, seed);
        break;
      }
      case Field::CPPTYPE_INT64:
        if (field->is_repeated()) {
          reflection->AddInt64(&message, field, seed);
        } else {
          reflection->SetInt64(&message, field, seed);
        }
        break;
      case Field::CPPTYPE_INT32:
        if (field->is_repeated()) {
          reflection->AddInt32(&message, field, seed);
        } else {
          reflection->SetInt32(&message, field, seed);
        }
        break;
      case Field::CPPTYPE_UINT64:
        if (field->is_repeated()) {
          reflection->AddUInt64(&message, field, static_cast<uint64_t>(seed));
        } else {
          reflection->SetUInt64(&message, field, static_cast<uint64_t>(seed));
        }
        break;
      case Field::CPPTYPE_UINT32:
        reflection->SetUInt32(&message, field, static_cast<uint32_t>(seed));
        break;
      case Field::CPPTYPE_BOOL:
        reflection->SetBool(&message, field, true);
        break;
      case Field::CPPTYPE_STRING:
        if (field->is_repeated()) {
          reflection->AddString(&message, field, "text " + std::to_string(seed));
        } else {
          reflection->SetString(&message, field, "text " + std::to_string(seed));
        }
        break;
      case Field::CPPTYPE_ENUM:
        reflection->SetEnumValue(&message, field, 1);
        break;
      default:
        FAIL() << field->full_name() << " has a type that this test does not fill";
    }
  }
}

void MakeHeader(v1::Header* header) {
  header->set_dtype(v1::DTYPE_FLOAT32);
  header->set_offset_bytes(64);
}

template <typename Message>
Message Filled() {
  Message message;
  int seed = 100;
  FillEveryField(message, seed);
  return message;
}

TEST(Convert, StorageRecordsKeepEveryField) {
  auto message = Filled<v1::StorageRecord>();
  message.mutable_device()->set_index(3);
  MakeHeader(message.mutable_header());
  MakeHeader(message.mutable_names(0)->mutable_header());
  const auto record = FromProto(message);
  ASSERT_TRUE(record.ok()) << record.status();
  v1::StorageRecord again;
  ToProto(*record, &again);
  std::string difference;
  MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(message, again)) << difference;
}

TEST(Convert, SessionsEventsAndInfoKeepEveryField) {
  const auto session = Filled<v1::SessionRecord>();
  v1::SessionRecord session_again;
  ToProto(FromProto(session), &session_again);
  EXPECT_TRUE(MessageDifferencer::Equals(session, session_again));

  const auto event = Filled<v1::Event>();
  v1::Event event_again;
  ToProto(FromProto(event), &event_again);
  EXPECT_TRUE(MessageDifferencer::Equals(event, event_again));

  const auto info = Filled<v1::BrokerInfo>();
  v1::BrokerInfo info_again;
  ToProto(FromProto(info), &info_again);
  EXPECT_TRUE(MessageDifferencer::Equals(info, info_again)) << info_again.DebugString();
}

TEST(Convert, CallsKeepEveryField) {
  auto opened = Filled<v1::OpenSessionReply>();
  opened.set_session_token(std::string(Token::kBytes, 's'));
  opened.set_lease_token(std::string(Token::kBytes, 'l'));
  v1::OpenSessionReply opened_again;
  ToProto(*FromProto(opened), &opened_again);
  EXPECT_TRUE(MessageDifferencer::Equals(opened, opened_again)) << opened_again.DebugString();
  opened.set_lease_token("short");
  EXPECT_EQ(FromProto(opened).status().code(), StatusCode::kInvalidArgument);

  auto create = Filled<v1::CreateRequest>();
  create.mutable_device()->set_index(3);
  MakeHeader(create.mutable_header());
  v1::CreateRequest create_again;
  ToProto(*FromProto(create), &create_again);
  EXPECT_TRUE(MessageDifferencer::Equals(create, create_again)) << create_again.DebugString();

  auto created = Filled<v1::CreateReply>();
  created.mutable_grant()->mutable_device()->set_index(3);
  created.mutable_grant()->set_size_bytes(64);
  created.mutable_grant()->set_segment_offset_bytes(128);
  created.mutable_grant()->set_segment_size_bytes(4096);
  v1::CreateReply created_again;
  ToProto(*FromProto(created), &created_again);
  EXPECT_TRUE(MessageDifferencer::Equals(created, created_again)) << created_again.DebugString();
}

TEST(Convert, ReleasesKeepEveryField) {
  const auto releases = Filled<v1::Releases>();
  v1::Releases again;
  ToProto(FromProto(releases), &again);
  EXPECT_TRUE(MessageDifferencer::Equals(releases, again)) << again.DebugString();
}

TEST(Convert, HeadersOfEveryDTypeRoundTrip) {
  for (int dtype = v1::DTYPE_BOOL; dtype <= v1::DTYPE_COMPLEX128; ++dtype) {
    const auto header = Header::Make({.shape = {2, 0, 3},
                                      .strides = {-4, 0, 7},
                                      .offset_bytes = 64,
                                      .device = {},
                                      .dtype = static_cast<DType>(dtype - 1),
                                      .requires_grad = false});
    ASSERT_TRUE(header.ok()) << header.status();
    v1::Header wire;
    ToProto(*header, &wire);
    EXPECT_EQ(wire.dtype(), dtype);
    const auto again = FromProto(wire, Device{});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *header);
  }
}

// Case H2.
TEST(Convert, MalformedHeadersAreRefused) {
  const auto code = [](const v1::Header& header) { return FromProto(header, Device{}).status().code(); };
  v1::Header header;
  EXPECT_EQ(code(header), StatusCode::kInvalidArgument) << "no dtype";
  header.set_dtype(static_cast<v1::DType>(99));
  EXPECT_EQ(code(header), StatusCode::kInvalidArgument) << "unknown dtype";
  header.set_dtype(v1::DTYPE_FLOAT32);
  EXPECT_EQ(code(header), StatusCode::kOk) << "a scalar";
  header.add_shape(3);
  EXPECT_EQ(code(header), StatusCode::kInvalidArgument) << "rank of shape is not that of strides";
  header.add_strides(1);
  EXPECT_EQ(code(header), StatusCode::kOk);
  header.set_shape(0, -1);
  EXPECT_EQ(code(header), StatusCode::kInvalidArgument) << "negative size";
  header.set_shape(0, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(code(header), StatusCode::kOutOfRange) << "more bytes than int64_t counts";
  v1::Header deep;
  deep.set_dtype(v1::DTYPE_UINT8);
  for (int i = 0; i < 100000; ++i) {
    deep.add_shape(1);
    deep.add_strides(1);
  }
  EXPECT_EQ(code(deep), StatusCode::kInvalidArgument) << "too many dimensions";
}

TEST(Convert, GrantsThatReachOutsideTheirSegmentAreRefused) {
  const Grant good{.storage = {1, 2},
                   .size_bytes = 64,
                   .device = {},
                   .segment = {1, 3},
                   .segment_offset_bytes = 64,
                   .segment_size_bytes = 128,
                   .access = GrantAccess::kReadWrite};
  const auto code = [](const Grant& grant) {
    v1::Grant wire;
    ToProto(grant, &wire);
    return FromProto(wire).status().code();
  };
  EXPECT_EQ(code(good), StatusCode::kOk);
  for (const auto& spoil : std::vector<std::function<void(Grant&)>>{
           [](Grant& g) { g.size_bytes = 65; }, [](Grant& g) { g.size_bytes = -1; },
           [](Grant& g) { g.size_bytes = std::numeric_limits<int64_t>::max(); },
           [](Grant& g) { g.segment_offset_bytes = 63; }, [](Grant& g) { g.segment_offset_bytes = -64; },
           [](Grant& g) { g.segment_size_bytes = -1; }, [](Grant& g) { g.segment = {}; },
           [](Grant& g) { g.storage = {}; }, [](Grant& g) { g.size_bytes = 0; }}) {
    Grant bad = good;
    spoil(bad);
    EXPECT_EQ(code(bad), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(code(Grant{.storage = {1, 2}}), StatusCode::kOk) << "zero bytes: nothing to map";
}

TEST(Convert, DevicesOutsideTheirRangeAreRefused) {
  v1::Device device;
  EXPECT_TRUE(FromProto(device).ok());
  device.set_index(1);
  EXPECT_EQ(FromProto(device).status().code(), StatusCode::kInvalidArgument);
  device.set_type(v1::DEVICE_TYPE_CUDA);
  EXPECT_TRUE(FromProto(device).ok());
  device.set_index(70000);
  EXPECT_EQ(FromProto(device).status().code(), StatusCode::kInvalidArgument);
  device.set_type(static_cast<v1::DeviceType>(7));
  EXPECT_EQ(FromProto(device).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tensorbroker
