#include "tensorbroker/client/thread.h"

#include <fmt/format.h>
#include <signal.h>

#include <system_error>
#include <utility>

namespace tensorbroker::internal {

StatusOr<std::thread> StartThread(std::string_view call, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  StatusOr<std::thread> started = std::thread();
  try {
    started = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    started = ResourceExhaustedError(
        fmt::format("{}: no thread can be started ({}): end some, or raise `ulimit -u`", call, error.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace tensorbroker::internal
