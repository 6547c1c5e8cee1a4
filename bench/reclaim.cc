// How long after the kernel says that a client is dead are the broker's books at rest?
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "bench/benchmarks.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/client/inspector.h"

namespace tensorbroker::bench {
namespace {

// Counts the Storages that are freed, and notes when the last one was.
class FreedCounter {
 public:
  void OnEvent(const Event& event) {
    if (event.kind != EventKind::kFreed) return;
    MutexLock lock(mutex_);
    ++freed_;
    last_ns_ = NowNs();
    changed_.NotifyAll();
  }
  // When the `count`th was freed, counted from the last call.
  StatusOr<int64_t> Await(int64_t count) {
    const TimePoint deadline = DeadlineAfter(Clock::Real().Now(), std::chrono::seconds(60));
    MutexLock lock(mutex_);
    while (freed_ < count) {
      if (!changed_.WaitUntil(mutex_, deadline))
        return DeadlineExceededError("not all Storages were freed in 60 s");
    }
    freed_ = 0;
    return last_ns_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int64_t freed_ TB_GUARDED_BY(mutex_) = 0;
  int64_t last_ns_ TB_GUARDED_BY(mutex_) = 0;
};

StatusOr<Row> ReclaimRow(const Options& options, Broker& broker, Question question, int64_t count,
                         int64_t bytes) {
  FreedCounter counter;
  TB_ASSIGN_OR_RETURN(const Subscription events,
                      broker.client().OnEvent([&counter](const Event& event) { counter.OnEvent(event); }));
  TB_ASSIGN_OR_RETURN(const BrokerInfo before, broker.client().inspector().Info());
  const auto ours = [&]() -> StatusOr<double> {
    TB_ASSIGN_OR_RETURN(
        Process child,
        broker.StartChild("hold", {std::to_string(count), std::to_string(bytes)}, kClientCore));
    TB_RETURN_IF_ERROR(child.Expect("ready"));
    child.Signal(SIGKILL);
    pollfd dead{child.pidfd(), POLLIN, 0};
    poll(&dead, 1, -1);
    const int64_t start = NowNs();
    TB_ASSIGN_OR_RETURN(const int64_t end, counter.Await(count));
    TB_ASSIGN_OR_RETURN(const BrokerInfo after, broker.client().inspector().Info());
    if (after.used_bytes != before.used_bytes || after.storages != before.storages) {
      return InternalError("the last Storage was freed, but the books are not as before");
    }
    return std::max<double>(0, static_cast<double>(end - start) / 1e6);
  };
  return Absolute(options, std::move(question), ours);
}

// What the kernel itself needs to free the pages of a tmpfs file, in ms.
StatusOr<double> KernelFreesMs(Context& context, int64_t bytes) {
  TB_ASSIGN_OR_RETURN(Floor * floor, context.floor());
  std::vector<double> times;
  for (int i = 0; i < 3; ++i) {
    TB_ASSIGN_OR_RETURN(const Fd file, floor->NewFile(bytes));
    const int64_t start = NowNs();
    if (ftruncate(file.get(), 0) != 0) return ErrnoStatus(errno, "ftruncate");
    times.push_back(static_cast<double>(NowNs() - start) / 1e6);
  }
  return std::min({times[0], times[1], times[2]});
}

}  // namespace

Answer Reclaim(Context& context) {
  TB_ASSIGN_OR_RETURN(Broker broker, Broker::Start(kBrokerCore));  // whose books nobody else writes
  constexpr int64_t kMib = 1 << 20;
  TB_ASSIGN_OR_RETURN(const double freeing, KernelFreesMs(context, 1024 * kMib));
  const std::string kernel = fmt::format("; the kernel alone frees 1 GiB of pages in {:.0f} ms", freeing);
  std::vector<Row> rows;
  const auto add = [&](Question question, int64_t count, int64_t bytes) -> Status {
    TB_ASSIGN_OR_RETURN(Row row, ReclaimRow(context.options(), broker, std::move(question), count, bytes));
    rows.push_back(std::move(row));
    return OkStatus();
  };
  TB_RETURN_IF_ERROR(
      add({.name = "reclaim_one", .unit = "ms", .budget = 20, .note = "one Storage of 1 GiB" + kernel}, 1,
          1024 * kMib));
  TB_RETURN_IF_ERROR(
      add({.name = "reclaim_one_64mib", .unit = "ms", .budget = 20, .note = "one Storage of 64 MiB"}, 1,
          64 * kMib));
  TB_RETURN_IF_ERROR(add(
      {.name = "reclaim_1000", .unit = "ms", .budget = 1000, .note = "1,000 Storages of 1 MiB"}, 1000, kMib));
  return rows;
}

}  // namespace tensorbroker::bench
