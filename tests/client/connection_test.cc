// Calls, below the session.
#include "tensorbroker/client/connection.h"

#include <gmock/gmock.h>

#include <thread>

#include "tensorbroker/client/link.h"
#include "tensorbroker/client/locate.h"
#include "tests/client/connect.h"

namespace tensorbroker::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Connection, ACallThatASessionsEndCancelsDoesNotSayThatTheBrokerIsGone) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const TimePoint deadline = DeadlineAfter(Clock::Real().Now(), 20s);
  const auto link = Must(::tensorbroker::internal::Link::Open(
      ::tensorbroker::internal::CandidateSockets(broker->socket()).front(), "another", deadline));
  ::tensorbroker::internal::Connection& connection = link->calls();
  Status ended;
  std::thread waiter(
      [&] { ended = connection.AwaitOpen(1, "never", GrantAccess::kReadOnly, kForever, deadline).status(); });
  EXPECT_TRUE(Eventually(5s, [&] {
    for (const Limit& limit : Must(client.inspector().Info()).limits) {
      if (limit.name == "pending waits") return limit.used == 1;
    }
    return false;
  }));
  Must(connection.CloseSession(deadline));
  waiter.join();
  EXPECT_EQ(ended.code(), StatusCode::kUnauthenticated) << ended;
  EXPECT_THAT(std::string(Message(ended)), HasSubstr("session"));
  EXPECT_THAT(std::string(Message(ended)), Not(HasSubstr("is gone")));
}

// A wait that was answered in time needs no word to the broker, which remembers only so many calls.
TEST(Connection, OnlyADeadlineThatNobodyAnsweredLeavesOpenWhatWasGranted) {
  const auto broker = StartBroker();
  const auto link = Must(::tensorbroker::internal::Link::Open(
      ::tensorbroker::internal::CandidateSockets(broker->socket()).front(), "another",
      DeadlineAfter(Clock::Real().Now(), 20s)));
  ::tensorbroker::internal::Connection& connection = link->calls();
  const auto open = [&](Duration timeout, Duration deadline) {
    return connection
        .AwaitOpen(link->NextCallId(), "never", GrantAccess::kReadOnly, timeout,
                   DeadlineAfter(Clock::Real().Now(), deadline))
        .status();
  };
  const Status answered = open(10ms, 20s);
  EXPECT_EQ(answered.code(), StatusCode::kDeadlineExceeded) << answered;
  EXPECT_FALSE(::tensorbroker::internal::MayHaveGranted(answered));
  const Status late = open(kForever, 50ms);
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late;
  EXPECT_TRUE(::tensorbroker::internal::MayHaveGranted(late));
}

}  // namespace
}  // namespace tensorbroker::testing
