// The client's end of the lease, with a broker that the test plays.
#include "tensorbroker/client/lease_client.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "tensorbroker/ipc/socket.h"

namespace tensorbroker::internal {
namespace {

// Answers one kGetSegment with `segment`'s descriptor, after `before`.
void AnswerOne(int socket, int segment, const std::function<void()>& before) {
  LeaseDecoder decoder;
  std::optional<LeaseFrame> request;
  while (!(request = decoder.Pop())) {
    std::array<std::byte, 256> buffer;
    const StatusOr<Received> received = RecvWithFd(socket, buffer);
    ASSERT_TRUE(received.ok() && !received->closed());
    ASSERT_TRUE(decoder.Push({reinterpret_cast<const char*>(buffer.data()), received->bytes}).ok());
  }
  LeaseFrame answer = *request;
  answer.type = LeaseType::kSegment;
  before();
  const std::string bytes = EncodeLeaseFrame(answer);
  const StatusOr<size_t> sent = SendWithFd(socket, std::as_bytes(std::span(bytes)), segment);
  ASSERT_TRUE(sent.ok()) << sent.status();
  ASSERT_EQ(*sent, bytes.size());
}

// Another thread takes the last one after the request was made.
TEST(LeaseClient, ADescriptorThatFindsNoRoomFailsItsOwnAnswerOnly) {
  const Fd segment(memfd_create("segment", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(segment.get(), 4096), 0);
  auto pair = SocketPair();
  ASSERT_TRUE(pair.ok());
  LeaseClient lease(std::move(pair->first), "the test");
  const auto get = [&] {
    return lease.GetSegment({7, 1}, GrantAccess::kReadOnly, 4096,
                            DeadlineAfter(Clock::Real().Now(), std::chrono::seconds(20)));
  };
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  std::thread full([&] {
    AnswerOne(pair->second.get(), segment.get(), [&] {
      const rlimit none{3, usual.rlim_max};
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    });
  });
  const Status status = get().status();
  full.join();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  EXPECT_FALSE(lease.broken());

  std::thread roomy([&] { AnswerOne(pair->second.get(), segment.get(), [] {}); });
  const StatusOr<Fd> got = get();
  roomy.join();
  EXPECT_TRUE(got.ok()) << got.status();
}

}  // namespace
}  // namespace tensorbroker::internal
