// Handles under way: exported by one process, imported by another.
#include <fmt/format.h>

#include "tests/multiprocess/harness/fixture.h"

namespace tensorbroker::testing {
namespace {

class Handles : public MultiprocessTest {};

EventLog::Matches SessionEnded(pid_t pid) {
  return [pid](const Event& event) { return event.kind == EventKind::kSessionEnded && event.pid == pid; };
}

// Case T1.
TEST_F(Handles, AHandleOutlivesItsSenderAndIsConsumedOnce) {
  StartBroker();
  EventLog events(client());
  const int64_t u0 = UsedBytes();
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Create("t", 100'000, 1);
  TB_ASSERT_OK(id.status());
  const StatusOr<std::string> handle = a.Export("t");
  TB_ASSERT_OK(handle.status());
  EXPECT_LT(handle->size(), 400u);
  TB_ASSERT_OK(a.Drop("t"));
  a.Finish();
  ASSERT_TRUE(events.WaitFor(SessionEnded(a.pid())));
  // `ls` shows it as in flight from A's pid.
  const std::optional<StorageRecord> record = Find(*id);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->state, StorageState::kInFlight);
  EXPECT_EQ(record->in_flight_from_pids, std::vector<int32_t>{a.pid()});

  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Import("t", *handle));
  TB_EXPECT_OK(b.Check("t", 1));
  EXPECT_EQ(Find(*id)->state, StorageState::kHeld);
  // Again, here and elsewhere, while B holds it.
  TB_EXPECT_OK(b.Import("again", *handle));
  TB_EXPECT_OK(b.Drop("again"));
  Agent& c = StartAgent("C");
  TB_EXPECT_OK(c.Import("t", *handle));
  TB_EXPECT_OK(c.Check("t", 1));
  EXPECT_EQ(Holders(*id), 2);
  TB_ASSERT_OK(b.Drop("t"));
  TB_ASSERT_OK(c.Drop("t"));
  EXPECT_TRUE(events.WaitForFreed(*id));
  TB_EXPECT_ERROR(b.Import("t", *handle), kNotFound, "consumed");
  EXPECT_TRUE(BooksAt(u0));
}

// Case T1.
TEST_F(Handles, AHandleThatNobodyLoadsGoesItsTimeAfterItsSender) {
  StartBroker({"--transfer-ttl", "400ms"});
  EventLog events(client());
  const int64_t u0 = UsedBytes();
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Create("t", 4096, 1);
  TB_ASSERT_OK(id.status());
  const StatusOr<std::string> handle = a.Export("t");
  TB_ASSERT_OK(handle.status());
  TB_ASSERT_OK(a.Drop("t"));
  TB_ASSERT_OK(a.Flush());
  // While the sender lives, time does not count.
  EXPECT_FALSE(events.WaitForFreed(*id, 800ms));
  EXPECT_EQ(Find(*id)->state, StorageState::kInFlight);
  const TimePoint before = Clock::Real().Now();
  a.Finish();
  ASSERT_TRUE(events.WaitFor(SessionEnded(a.pid())));
  const TimePoint ended = Clock::Real().Now();
  EXPECT_TRUE(events.WaitForFreed(*id));
  const TimePoint freed = Clock::Real().Now();
  EXPECT_GE(freed - before, 400ms);
  EXPECT_LE(freed - ended, 1500ms * kSlack);
  TB_EXPECT_ERROR(client().Import(*handle), kNotFound);
  EXPECT_TRUE(BooksAt(u0));
}

// A handle carries its sender's header and access.
TEST_F(Handles, AHandleCarriesTheViewAndTheAccessOfItsSender) {
  StartBroker();
  const StatusOr<Tensor> tensor = client().Arange(0, 6, 1, DType::kFloat32);
  TB_ASSERT_OK(tensor.status());
  const StatusOr<Tensor> view = tensor->View(Dims{2, 3})->Transpose(0, 1);
  TB_ASSERT_OK(view.status());
  const StatusOr<std::string> writable = view->Export();
  TB_ASSERT_OK(writable.status());
  TB_ASSERT_OK(tensor->Publish("x"));
  Agent& reader = StartAgent("reader");
  TB_ASSERT_OK(reader.Open("t", "x"));
  const StatusOr<std::string> readonly = reader.Export("t");
  TB_ASSERT_OK(readonly.status());

  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Import("w", *writable));
  EXPECT_EQ(*b.Values("w"), "0 3 1 4 2 5");
  TB_EXPECT_OK(b.Do({"fill", "w", "0"}));
  Agent& c = StartAgent("C");
  TB_ASSERT_OK(c.Import("r", *readonly));
  TB_EXPECT_ERROR(c.Do({"fill", "r", "0"}), kFailedPrecondition);
}

// Whatever stands in a handle, it is an error and not a fault.
TEST_F(Handles, ASpoiledHandleIsRefused) {
  StartBroker();
  StatusOr<Tensor> tensor = client().Empty({64});
  TB_ASSERT_OK(tensor.status());
  const StatusOr<std::string> handle = tensor->Export();
  TB_ASSERT_OK(handle.status());
  Agent& b = StartAgent("B");
  for (const std::string& bad :
       {std::string(), std::string("x"), handle->substr(0, handle->size() - 1), *handle + "x"}) {
    const Status refused = b.Import("t", bad);
    EXPECT_TRUE(refused.code() == StatusCode::kInvalidArgument || refused.code() == StatusCode::kNotFound)
        << refused;
  }
  int accepted = 0;
  for (size_t i = 0; i < handle->size(); ++i) {
    std::string spoiled = *handle;
    spoiled[i] = static_cast<char>(spoiled[i] ^ 0x20);
    accepted += b.Import("t", spoiled).ok();
    ASSERT_FALSE(b.Ended()) << "byte " << i;
  }
  // A byte of the header may be another good header; no byte of id and token may be another.
  EXPECT_LT(accepted, static_cast<int>(handle->size()) - 24);
  TB_EXPECT_OK(client().Open("none").status().code() == StatusCode::kNotFound ? OkStatus()
                                                                              : InternalError("lost"));
}

}  // namespace
}  // namespace tensorbroker::testing
