// What the tests with a broker share.
#ifndef TENSORBROKER_TESTS_CLIENT_CONNECT_H_
#define TENSORBROKER_TESTS_CLIENT_CONNECT_H_

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "tensorbroker/client/client.h"
#include "tensorbroker/client/inspector.h"
#include "tests/support/broker_process.h"
#include "tests/support/child_process.h"

namespace tensorbroker::testing {

using namespace std::chrono_literals;

// The value, or the test's end by abort: for steps that are not what is tested.
template <typename T>
T Must(StatusOr<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.status();
    abort();
  }
  return *std::move(result);
}

inline void Must(const Status& status) { ASSERT_TRUE(status.ok()) << status; }

inline std::unique_ptr<BrokerProcess> StartBroker(std::vector<std::string> arguments = {}) {
  return Must(BrokerProcess::Start(std::move(arguments)));
}

// A session of this process.
inline Client ConnectTo(const BrokerProcess& broker, Duration deadline = 20s) {
  return Must(Client::Connect({.socket = broker.socket(), .label = "the test", .deadline = deadline}));
}

// How many Storages the broker has.
inline uint64_t Storages(const Client& client) { return Must(client.inspector().Info()).storages; }

inline bool ComesTo(const Client& client, uint64_t storages, Duration timeout = 5s) {
  return Eventually(timeout, [&] { return Storages(client) == storages; });
}

}  // namespace tensorbroker::testing

#endif  // TENSORBROKER_TESTS_CLIENT_CONNECT_H_
