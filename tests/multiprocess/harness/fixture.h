// The fixture of all multi-process tests: a broker, agents, an observer, and a check that nothing is left.
#ifndef TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_FIXTURE_H_
#define TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbroker/base/mutex.h"
#include "tensorbroker/client/client.h"
#include "tensorbroker/client/inspector.h"
#include "tests/multiprocess/harness/agent.h"
#include "tests/multiprocess/harness/process.h"
#include "tests/support/broker_process.h"

namespace tensorbroker::testing {

#define TB_ASSERT_OK(expression)                                       \
  do {                                                                 \
    const ::tensorbroker::Status tb_ok_ = (expression);                \
    ASSERT_TRUE(tb_ok_.ok()) << #expression << "\n  gives " << tb_ok_; \
  } while (false)
#define TB_EXPECT_OK(expression)                                       \
  do {                                                                 \
    const ::tensorbroker::Status tb_ok_ = (expression);                \
    EXPECT_TRUE(tb_ok_.ok()) << #expression << "\n  gives " << tb_ok_; \
  } while (false)
// `code` is StatusCode's enumerator; all further arguments are texts that the message must hold.
#define TB_EXPECT_ERROR(expression, code, ...)                                                        \
  ::tensorbroker::testing::ExpectError((expression), ::tensorbroker::StatusCode::code, {__VA_ARGS__}, \
                                       #expression, __FILE__, __LINE__)

void ExpectError(const Status& status, StatusCode code, const std::vector<std::string>& texts,
                 const char* expression, const char* file, int line);
template <typename T>
void ExpectError(const StatusOr<T>& result, StatusCode code, const std::vector<std::string>& texts,
                 const char* expression, const char* file, int line) {
  ExpectError(result.status(), code, texts, expression, file, line);
}

// All events since it was made. Thread-safe.
class EventLog {
 public:
  explicit EventLog(Client client, std::string_view prefix = {});

  using Matches = std::function<bool(const Event&)>;
  // True once `count` events that match have come; false when `limit` is over.
  bool WaitFor(const Matches& matches, Duration limit = kHang, int count = 1);
  bool WaitForFreed(StorageId id, Duration limit = kHang);
  int Count(const Matches& matches);
  std::vector<Event> All();

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Event> events_ TB_GUARDED_BY(mutex_);
  std::optional<Subscription> subscription_;  // the last member: it ends before what its callback uses
};

// Checks after each test: each broker and agent ended cleanly, no sanitizer spoke, no file is left in the shm
// directory, this process has the descriptors that it had, and no child lives.
class MultiprocessTest : public ::testing::Test {
 protected:
  MultiprocessTest();
  ~MultiprocessTest() override;
  void SetUp() override;
  void TearDown() override;

  // The broker that agents and observers connect to unless told otherwise.
  void StartBroker(std::vector<std::string> args = {});
  BrokerProcess& broker() { return *broker_; }
  // For brokers that are not StartBroker's (StartDaemon): where clients find it.
  void UseSocket(std::string socket) { socket_ = std::move(socket); }
  const std::string& socket() const { return socket_; }

  // A client process. It ends with the test, where it was not killed.
  Agent& StartAgent(std::string label = {}, LaunchOptions launch = {});
  Agent& StartAgent(const AgentOptions& options);
  Agent& Adopt(Agent agent);  // a forked one
  // Ends all agents, as the end of the test does: for tests that stop their own daemon.
  void StopAgents();

  // This process's own client: for looking, and for calls that need no process of their own.
  Client& client();
  Inspector inspector() { return client().inspector(); }
  BrokerInfo Info();
  int64_t UsedBytes() { return Info().used_bytes; }
  // True once the broker's books are at rest with so many bytes and Storages.
  bool BooksAt(int64_t used_bytes, Duration limit = kHang);
  std::optional<StorageRecord> Find(StorageId id);
  // Sessions that hold the Storage and whose processes live; -1: no such Storage.
  int64_t Holders(StorageId id);
  // A fresh directory of this test's own, removed after it (0755, so that other uids can enter).
  std::string MakeDirectory(std::string_view parent = "/tmp");
  // Drops this process's client and what the fixture kept of it.
  void DropClient() { client_.reset(); }

 private:
  std::unique_ptr<BrokerProcess> broker_;
  std::string socket_;
  std::optional<Client> client_;
  std::list<Agent> agents_;
  std::vector<std::string> directories_;
  std::set<std::string> descriptors_before_;
};

// Mounts a tmpfs of so many bytes on a fresh directory, for as long as it lives. Root only.
class TmpfsMount {
 public:
  TmpfsMount(std::string directory, int64_t bytes);
  ~TmpfsMount();
  bool mounted() const { return mounted_; }
  const std::string& path() const { return directory_; }
  // Fills what is free with a file; gives its bytes.
  int64_t FillUp();

 private:
  std::string directory_;
  bool mounted_ = false;
};

// Targets of a process's open descriptors: "12 /dev/shm/x", "3 socket:[4711]".
std::vector<std::string> DescriptorsOf(pid_t pid);

#define TB_REQUIRE_ROOT() \
  if (geteuid() != 0) GTEST_SKIP() << "needs root"

}  // namespace tensorbroker::testing

#endif  // TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_FIXTURE_H_
