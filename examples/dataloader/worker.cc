#include "examples/dataloader/worker.h"

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "examples/dataloader/digits.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/client/client.h"

namespace tensorbroker::examples {
namespace {

// How many names a worker may have standing. The trainer gives one back by unpublishing it; the broker tells us so by an
// event. So memory stays bounded, without a channel between the two and without asking again and again.
class Leave {
 public:
  explicit Leave(int names) : free_(names), all_(names) {}

  // For Client::OnEvent.
  void OnEvent(const Event& event) {
    MutexLock lock(mutex_);
    if (event.kind == EventKind::kUnpublished) ++free_;
    if (event.kind == EventKind::kLagged) lost_ = true;
    changed_.NotifyAll();
  }

  // Waits for leave to publish one more.
  Status Take() {
    TB_RETURN_IF_ERROR(WaitFor(1));
    MutexLock lock(mutex_);
    --free_;
    return OkStatus();
  }
  // Waits until the trainer has taken everything.
  Status AwaitAll() { return WaitFor(all_); }

 private:
  Status WaitFor(int names) {
    const TimePoint deadline = DeadlineAfter(Clock::Real().Now(), kPatience);
    MutexLock lock(mutex_);
    while (free_ < names && !lost_) {
      if (!changed_.WaitUntil(mutex_, deadline))
        return DeadlineExceededError("the trainer took no batch for 60 s");
    }
    return lost_ ? DataLossError("the broker dropped events: this worker cannot count its batches")
                 : OkStatus();
  }

  Mutex mutex_;
  CondVar changed_;
  int free_ TB_GUARDED_BY(mutex_);
  const int all_;
  bool lost_ TB_GUARDED_BY(mutex_) = false;
};

// Publishes under names that go with this process: whatever happens to it, nothing stays behind.
Status Publish(Leave& leave, const Tensor& tensor, const std::string& name) {
  TB_RETURN_IF_ERROR(leave.Take());
  return tensor.Publish(name, {.lifetime = NameLifetime::kSession});
}

Status PublishNumbers(Client& client, Leave& leave, std::span<const int64_t> numbers,
                      const std::string& name) {
  TB_ASSIGN_OR_RETURN(const Tensor tensor,
                      client.Empty({static_cast<int64_t>(numbers.size())}, DType::kInt64));
  std::copy(numbers.begin(), numbers.end(), tensor.data<int64_t>());
  return Publish(leave, tensor, name);
}

// A new Storage in shared memory, filled with the digits that `which` names.
StatusOr<Tensor> MakeBatch(Client& client, const Digits& digits, std::span<const int64_t> which) {
  TB_ASSIGN_OR_RETURN(Tensor batch,
                      client.Empty({static_cast<int64_t>(which.size()), kColumns}, DType::kFloat32));
  digits.Fill(which, batch.data<float>());
  return batch;
}

}  // namespace

Status RunWorker(const DataloaderOptions& options, int worker) {
  TB_ASSIGN_OR_RETURN(
      Client client,
      Client::Connect({.socket = options.socket, .label = "dataloader worker " + std::to_string(worker)}));
  TB_ASSIGN_OR_RETURN(const Digits digits, ReadDigits(options.data));
  const Split split = SplitDigits(digits.count(), options.seed);
  const int64_t steps = static_cast<int64_t>(split.train.size()) / options.batch;

  Leave leave(options.ahead);
  TB_ASSIGN_OR_RETURN(
      const Subscription events,
      client.OnEvent([&leave](const Event& event) { leave.OnEvent(event); }, WorkerPrefix(worker)));
  if (worker == 0) {
    const int64_t plan[] = {static_cast<int64_t>(split.train.size()),
                            static_cast<int64_t>(split.held_out.size())};
    TB_RETURN_IF_ERROR(PublishNumbers(client, leave, plan, PlanName()));
    TB_ASSIGN_OR_RETURN(const Tensor held_out, MakeBatch(client, digits, split.held_out));
    TB_RETURN_IF_ERROR(Publish(leave, held_out, HeldOutName()));
  }

  int64_t batches = 0;
  Duration filling{0};
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    const std::vector<int64_t> order = ShuffledFor(epoch, options.seed, split.train);
    for (int64_t step = 0; step < steps; ++step) {
      if (WorkerOf(epoch, step, steps, options.workers) != worker) continue;
      const TimePoint start = Clock::Real().Now();
      TB_ASSIGN_OR_RETURN(
          const Tensor batch,
          MakeBatch(client, digits, std::span(order).subspan(step * options.batch, options.batch)));
      filling += Clock::Real().Now() - start;
      TB_RETURN_IF_ERROR(Publish(leave, batch, BatchName(worker, epoch, step)));
      ++batches;
    }
  }
  TB_RETURN_IF_ERROR(leave.AwaitAll());
  const int64_t report[] = {client.wire_bytes(), batches, filling.count()};
  TB_RETURN_IF_ERROR(PublishNumbers(client, leave, report, ReportName(worker)));
  return leave.AwaitAll();
}

}  // namespace tensorbroker::examples
