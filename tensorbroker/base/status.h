// Status and StatusOr, named once for the whole project.
//
// A Status is absl::Status; its code values equal gRPC's, so the edge of the wire is a cast. The factories
// take std::string_view because Debian builds Abseil for C++14, where absl::string_view is another type. A
// message says: the call, the subject, the cause, and what to do; at most kMaxMessageBytes.
#ifndef TENSORBROKER_BASE_STATUS_H_
#define TENSORBROKER_BASE_STATUS_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorbroker/base/utf8.h"

namespace tensorbroker {

using Status = absl::Status;
using StatusCode = absl::StatusCode;
template <typename T>
using StatusOr = absl::StatusOr<T>;

inline constexpr size_t kMaxMessageBytes = 1024;

inline Status OkStatus() { return absl::OkStatus(); }

// A Status of `code`; a message over kMaxMessageBytes is cut at a UTF-8 boundary and ends in "...".
inline Status MakeStatus(StatusCode code, std::string_view message) {
  if (message.size() <= kMaxMessageBytes) return Status(code, {message.data(), message.size()});
  return Status(code, std::string(Utf8Prefix(message, kMaxMessageBytes - 3)) + "...");
}

// clang-format off
inline Status InvalidArgumentError(std::string_view m) { return MakeStatus(StatusCode::kInvalidArgument, m); }
inline Status OutOfRangeError(std::string_view m) { return MakeStatus(StatusCode::kOutOfRange, m); }
inline Status NotFoundError(std::string_view m) { return MakeStatus(StatusCode::kNotFound, m); }
inline Status AlreadyExistsError(std::string_view m) { return MakeStatus(StatusCode::kAlreadyExists, m); }
inline Status FailedPreconditionError(std::string_view m) { return MakeStatus(StatusCode::kFailedPrecondition, m); }
inline Status ResourceExhaustedError(std::string_view m) { return MakeStatus(StatusCode::kResourceExhausted, m); }
inline Status DeadlineExceededError(std::string_view m) { return MakeStatus(StatusCode::kDeadlineExceeded, m); }
inline Status DataLossError(std::string_view m) { return MakeStatus(StatusCode::kDataLoss, m); }
inline Status UnavailableError(std::string_view m) { return MakeStatus(StatusCode::kUnavailable, m); }
inline Status UnauthenticatedError(std::string_view m) { return MakeStatus(StatusCode::kUnauthenticated, m); }
inline Status PermissionDeniedError(std::string_view m) { return MakeStatus(StatusCode::kPermissionDenied, m); }
inline Status UnimplementedError(std::string_view m) { return MakeStatus(StatusCode::kUnimplemented, m); }
inline Status CancelledError(std::string_view m) { return MakeStatus(StatusCode::kCancelled, m); }
inline Status AbortedError(std::string_view m) { return MakeStatus(StatusCode::kAborted, m); }
inline Status InternalError(std::string_view m) { return MakeStatus(StatusCode::kInternal, m); }
// clang-format on

inline std::string_view Message(const Status& status) {
  return {status.message().data(), status.message().size()};
}

// `status` with "`context`: " before its message; OK stays OK.
inline Status Annotate(const Status& status, std::string_view context) {
  if (status.ok()) return status;
  return MakeStatus(status.code(), std::string(context) + ": " + std::string(Message(status)));
}

// The name users know from gRPC: "NOT_FOUND".
inline std::string CodeName(StatusCode code) { return absl::StatusCodeToString(code); }

}  // namespace tensorbroker

#define TB_CONCAT_INNER(a, b) a##b
#define TB_CONCAT(a, b) TB_CONCAT_INNER(a, b)

// Returns from the caller with the Status that `expression` gives, unless it is OK.
#define TB_RETURN_IF_ERROR(expression)                                \
  do {                                                                \
    if (::absl::Status tb_status_ = (expression); !tb_status_.ok()) { \
      return tb_status_;                                              \
    }                                                                 \
  } while (false)

// `TB_ASSIGN_OR_RETURN(auto x, F());` where F returns a StatusOr.
#define TB_ASSIGN_OR_RETURN(declaration, expression) \
  TB_ASSIGN_OR_RETURN_INNER(TB_CONCAT(tb_status_or_, __LINE__), declaration, expression)
#define TB_ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                      \
  if (!temporary.ok()) return std::move(temporary).status();          \
  declaration = *std::move(temporary)

#endif  // TENSORBROKER_BASE_STATUS_H_
