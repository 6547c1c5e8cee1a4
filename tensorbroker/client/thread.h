// Threads of the library's own in a program that is not ours.
#ifndef TENSORBROKER_CLIENT_THREAD_H_
#define TENSORBROKER_CLIENT_THREAD_H_

#include <functional>
#include <string_view>
#include <thread>

#include "tensorbroker/base/status.h"

namespace tensorbroker::internal {

// Runs `body` in a thread, to be joined or detached, with all signals blocked: those are for the program's own threads. `call` begins the
// message.
// kResourceExhausted  no thread can be started
StatusOr<std::thread> StartThread(std::string_view call, std::function<void()> body);

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_THREAD_H_
