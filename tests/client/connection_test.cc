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
  EXPECT_THAT(std::string(Message(ended)), HasSubstr("session"));
  EXPECT_THAT(std::string(Message(ended)), Not(HasSubstr("is gone")));
}

}  // namespace
}  // namespace tensorbroker::testing
