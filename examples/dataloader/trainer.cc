#include "examples/dataloader/trainer.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "examples/common/children.h"
#include "examples/dataloader/softmax.h"
#include "tensorbroker/base/units.h"
#include "tensorbroker/client/client.h"

namespace tensorbroker::examples {
namespace {

constexpr float kRate = 0.5f;

// Looks after the workers in a thread of its own: the trainer may be waiting for a batch that a dead worker will never
// publish. Training without a worker would skip its digits, so the program ends, and says who died.
class Watchman {
 public:
  explicit Watchman(Children& workers) : workers_(workers), thread_([this] { Watch(); }) {}
  ~Watchman() {
    if (!thread_.joinable()) return;
    workers_.Kill();
    thread_.join();
  }
  // Returns when the workers have ended by themselves.
  void Join() { thread_.join(); }

 private:
  void Watch() {
    const Status status = workers_.Wait();
    if (status.ok() || status.code() == StatusCode::kCancelled) return;
    std::fprintf(stderr, "dataloader: %.*s; training cannot go on without its batches\n",
                 static_cast<int>(Message(status).size()), Message(status).data());
    std::_Exit(1);
  }

  Children& workers_;
  std::thread thread_;
};

// Opens what a worker published and takes its name away, which is the worker's leave to publish one more. The tensor
// keeps the bytes alive without the name.
StatusOr<Tensor> Take(Client& client, const std::string& name) {
  TB_ASSIGN_OR_RETURN(Tensor tensor, client.Open(name, {.timeout = kPatience}));
  TB_RETURN_IF_ERROR(client.Unpublish(name));
  return tensor;
}

// Pixels and label of a batch: two headers on the same Storage; no byte moves.
struct Views {
  Tensor pixels;  // float32 [rows, kPixels]
  Tensor labels;  // float32 [rows]
};
StatusOr<Views> ViewsOf(const Tensor& batch) {
  TB_ASSIGN_OR_RETURN(Tensor pixels, batch.Narrow(1, 0, kPixels));
  TB_ASSIGN_OR_RETURN(Tensor labels, batch.Select(1, kPixels));
  return Views{std::move(pixels), std::move(labels)};
}

struct Totals {
  int64_t batches = 0;
  int64_t shared_bytes = 0;
  Duration training{0};
  Duration waiting{0};  // of it, for the next batch
};

Status Train(const DataloaderOptions& options, Client& client, int64_t steps, Softmax& model,
             Totals& totals) {
  const TimePoint start = Clock::Real().Now();
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    double loss = 0;
    for (int64_t step = 0; step < steps; ++step) {
      const int worker = WorkerOf(epoch, step, steps, options.workers);
      const std::string name = BatchName(worker, epoch, step);
      const TimePoint asked = Clock::Real().Now();
      TB_ASSIGN_OR_RETURN(const Tensor batch, client.Open(name, {.timeout = kPatience}));
      totals.waiting += Clock::Real().Now() - asked;
      if (epoch == 0 && step == steps / 2) {
        std::printf("\ntensorctl ls, in the middle of the first epoch:\n");
        TB_RETURN_IF_ERROR(RunBeside("tensorctl", {"--socket", client.socket(), "ls"}));
        std::printf("\n");
      }
      TB_ASSIGN_OR_RETURN(const Views views, ViewsOf(batch));
      loss += model.Step(views.pixels, views.labels, kRate);
      TB_RETURN_IF_ERROR(client.Unpublish(name));
      ++totals.batches;
      totals.shared_bytes += batch.nbytes();
    }
    if (epoch == 0 || (epoch + 1) % 10 == 0 || epoch + 1 == options.epochs) {
      std::printf("epoch %2d  mean loss %.4f\n", epoch + 1, loss / static_cast<double>(steps));
    }
  }
  totals.training = Clock::Real().Now() - start;
  return OkStatus();
}

double Milliseconds(Duration duration, int64_t batches) {
  return std::chrono::duration<double, std::milli>(duration).count() / static_cast<double>(batches);
}

}  // namespace

Status RunTrainer(const DataloaderOptions& options) {
  TB_ASSIGN_OR_RETURN(Client client,
                      options.socket.empty()
                          ? Client::Embedded({.label = "dataloader trainer"})
                          : Client::Connect({.socket = options.socket, .label = "dataloader trainer"}));
  std::printf("broker: %s on %s\n", options.socket.empty() ? "a private one" : "the one",
              client.socket().c_str());

  Children workers;
  for (int worker = 0; worker < options.workers; ++worker) {
    const std::string number = std::to_string(worker);
    TB_RETURN_IF_ERROR(
        workers.Spawn("worker " + number,
                      {"--worker", number, "--socket", client.socket(), "--data", options.data, "--workers",
                       std::to_string(options.workers), "--batch", std::to_string(options.batch), "--epochs",
                       std::to_string(options.epochs), "--ahead", std::to_string(options.ahead), "--seed",
                       std::to_string(options.seed)}));
  }
  std::printf("workers: %d processes, pids %s\n", options.workers, workers.pids().c_str());
  std::fflush(stdout);
  Watchman watchman(workers);

  TB_ASSIGN_OR_RETURN(const Tensor plan, Take(client, PlanName()));
  const int64_t train = plan.data<const int64_t>()[0], held_out_count = plan.data<const int64_t>()[1];
  TB_ASSIGN_OR_RETURN(const Tensor held_out, Take(client, HeldOutName()));
  const int64_t steps = train / options.batch;
  if (steps < 1)
    return InvalidArgumentError("--batch is larger than the " + std::to_string(train) + " training digits");
  std::printf("digits: %ld to train on, %ld held out; %d epochs of %ld batches of %d\n", train,
              held_out_count, options.epochs, steps, options.batch);

  Softmax model;
  Totals totals;
  TB_RETURN_IF_ERROR(Train(options, client, steps, model, totals));
  totals.shared_bytes += held_out.nbytes();

  int64_t worker_bytes = 0, worker_batches = 0, filling_ns = 0;
  for (int worker = 0; worker < options.workers; ++worker) {
    TB_ASSIGN_OR_RETURN(const Tensor report, Take(client, ReportName(worker)));
    const int64_t* numbers = report.data<const int64_t>();
    worker_bytes += numbers[0];
    worker_batches += numbers[1];
    filling_ns += numbers[2];
  }
  watchman.Join();
  if (worker_batches != totals.batches) {
    return DataLossError("the workers made " + std::to_string(worker_batches) + " batches, the trainer saw " +
                         std::to_string(totals.batches));
  }

  TB_ASSIGN_OR_RETURN(const Views views, ViewsOf(held_out));
  std::printf("\naccuracy: %.3f\n", model.Accuracy(views.pixels, views.labels));
  std::printf("bytes that crossed the socket: %ld in messages (trainer %ld, workers %ld)\n",
              client.wire_bytes() + worker_bytes, client.wire_bytes(), worker_bytes);
  std::printf("bytes shared without a copy: %ld in %ld batches and the held-out digits\n",
              totals.shared_bytes, totals.batches);
  std::printf("time a batch: %.3f ms (waiting for it %.3f ms; filling it, in a worker, %.3f ms)\n",
              Milliseconds(totals.training, totals.batches), Milliseconds(totals.waiting, totals.batches),
              Milliseconds(Duration(filling_ns), totals.batches));
  return OkStatus();
}

}  // namespace tensorbroker::examples
