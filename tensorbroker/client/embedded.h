// A broker of this process's own.
#ifndef TENSORBROKER_CLIENT_EMBEDDED_H_
#define TENSORBROKER_CLIENT_EMBEDDED_H_

#include <string>

#include "tensorbroker/base/status.h"
#include "tensorbroker/client/options.h"

namespace tensorbroker::internal {

// Starts a broker on a fresh socket in a private directory, and returns the socket once it serves. The broker ends with this
// process, however that ends; a clean exit waits for it and removes the directory. Thread-safe.
// kNotFound           no tensorbrokerd
// kUnavailable        it ended at its start: with its last words
// kDeadlineExceeded   it was not ready in 10 s
// kResourceExhausted  no descriptor or process left
StatusOr<std::string> StartEmbedded(const EmbeddedOptions& options);

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_EMBEDDED_H_
