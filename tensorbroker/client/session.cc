#include "tensorbroker/client/session.h"

#include <errno.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "tensorbroker/base/name.h"
#include "tensorbroker/base/utf8.h"
#include "tensorbroker/client/connection.h"
#include "tensorbroker/client/fork.h"
#include "tensorbroker/client/handle.h"
#include "tensorbroker/client/session_registry.h"
#include "tensorbroker/client/thread.h"
#include "tensorbroker/ipc/mapping.h"

namespace tensorbroker::internal {

namespace {

constexpr size_t kMaxRides = 1000;     // releases in one Create
constexpr size_t kMaxClaims = 10'000;  // ids in one ClaimInherited
constexpr size_t kMaxLabelBytes = 64;

Fd MakeWake() { return Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

std::string LabelOf(const std::string& wanted) {
  if (!wanted.empty()) return std::string(Utf8Prefix(wanted, kMaxLabelBytes));
  // A program's file may have any name, and a label no control character and no broken UTF-8.
  std::string label;
  std::string_view rest = program_invocation_short_name;
  while (!rest.empty()) {
    const size_t bytes = std::max<size_t>(DecodeUtf8(rest).bytes, 1);
    const std::string_view character = rest.substr(0, bytes);
    const bool good = DecodeUtf8(rest).bytes > 0 && !HasControlCharacters(character);
    label += good ? character : "?";
    rest.remove_prefix(bytes);
  }
  return std::string(Utf8Prefix(label, kMaxLabelBytes));
}

}  // namespace

// ---- connecting

StatusOr<std::shared_ptr<Session>> Session::Connect(const ConnectOptions& options) {
  const TimePoint deadline = DeadlineAfter(Clock::Real().Now(), options.deadline);
  TB_RETURN_IF_ERROR(Connection::CheckMayInit());
  const std::vector<SocketCandidate> candidates = CandidateSockets(options.socket);
  const std::string label = LabelOf(options.label);
  std::vector<Status> causes;
  for (const SocketCandidate& candidate : candidates) {
    std::shared_ptr<Session> session = SessionRegistry::Get().FindOrMake(candidate, label, options.deadline);
    const StatusOr<std::shared_ptr<Link>> link = session->GetLink(deadline);
    if (link.ok()) return session;
    const StatusCode code = link.status().code();
    const bool absent = code == StatusCode::kNotFound || code == StatusCode::kUnavailable;
    // A broker that answered with a refusal, or a name that cannot be a socket's: that is the answer.
    if (!absent && (candidates.size() == 1 || code != StatusCode::kPermissionDenied)) {
      const std::string_view message = Message(link.status());
      return message.rfind("Connect", 0) == 0 ? link.status() : Annotate(link.status(), "Connect");
    }
    causes.push_back(link.status());
  }
  return NoBroker(candidates, causes);
}

Session::Session(SocketCandidate candidate, std::string label, Duration default_deadline)
    : candidate_(std::move(candidate)),
      label_(std::move(label)),
      default_deadline_(default_deadline),
      wake_(MakeWake()) {}

Session::~Session() { SessionRegistry::Get().Forget(this); }

bool Session::lost() {
  MutexLock lock(mutex_);
  return link_ != nullptr && !link_->Check().ok();
}

StatusOr<std::shared_ptr<Link>> Session::GetLink(TimePoint deadline) {
  std::vector<Token> ancestors;
  {
    MutexLock lock(mutex_);
    while (true) {
      if (link_ != nullptr) {
        TB_RETURN_IF_ERROR(link_->Check());
        return link_;
      }
      if (!opening_) break;
      if (!changed_.WaitUntil(mutex_, deadline)) {
        return DeadlineExceededError(fmt::format(
            "no session with the broker at {} in time: another thread waits for its answer", socket()));
      }
    }
    opening_ = true;
    ancestors = ancestors_;
  }
  StatusOr<Opened> opened = OpenLink(ancestors, deadline);
  MutexLock lock(mutex_);
  opening_ = false;
  changed_.NotifyAll();
  if (!opened.ok()) return opened.status();
  // What was claimed counts from here on only: a session that does not come to be takes its claims along, and the next
  // one claims anew. The thread waits for the lock before it looks at anything.
  TB_ASSIGN_OR_RETURN(std::thread thread, StartThread("Connect", [self = self_.lock()] { RunThread(self); }));
  thread.detach();
  link_ = opened->link;
  ancestors_.clear();
  holds_.Claimed(opened->claimed);
  return opened->link;
}

StatusOr<Session::Opened> Session::OpenLink(const std::vector<Token>& ancestors, TimePoint deadline) {
  if (!wake_.valid()) return ErrnoStatus(EMFILE, "eventfd");
  TB_ASSIGN_OR_RETURN(std::shared_ptr<Link> link, Link::Open(candidate_, label_, deadline));
  TB_ASSIGN_OR_RETURN(std::vector<Grant> claimed, ClaimInherited(*link, ancestors, deadline));
  return Opened{std::move(link), std::move(claimed)};
}

StatusOr<std::vector<Grant>> Session::ClaimInherited(Link& link, const std::vector<Token>& ancestors,
                                                     TimePoint deadline) {
  std::vector<StorageId> wanted = holds_.Inherited();
  std::vector<Grant> claimed;
  for (const Token& ancestor : ancestors) {
    std::unordered_set<StorageId> got;
    for (size_t i = 0; i < wanted.size(); i += kMaxClaims) {
      const std::vector<StorageId> some(
          wanted.begin() + static_cast<ptrdiff_t>(i),
          wanted.begin() + static_cast<ptrdiff_t>(std::min(i + kMaxClaims, wanted.size())));
      const StatusOr<std::vector<Grant>> grants = link.calls().ClaimInherited(ancestor, some, deadline);
      if (grants.ok()) {
        for (const Grant& grant : *grants) got.insert(grant.storage);
        claimed.insert(claimed.end(), grants->begin(), grants->end());
      } else if (grants.status().code() != StatusCode::kNotFound &&
                 grants.status().code() != StatusCode::kUnauthenticated) {
        return grants.status();
      }
    }
    std::erase_if(wanted, [&got](StorageId id) { return got.count(id) > 0; });
  }
  return claimed;
}

// ---- calls

StatusOr<std::shared_ptr<HeldStorage>> Session::Take(const Grant& grant, GrantAccess access, bool map,
                                                     TimePoint deadline) {
  TB_ASSIGN_OR_RETURN(std::shared_ptr<HeldStorage> held, holds_.Add(user(), grant, access));
  if (map) TB_RETURN_IF_ERROR(Map(held.get(), deadline));  // or `held` ends here, and gives the grant back
  return held;
}

void Session::AbandonIfUnknown(const Status& status, uint64_t call_id) {
  if (MayHaveGranted(status)) Abandon(call_id);
}

void Session::Abandon(uint64_t call_id) {
  if (holds_.Abandon(call_id)) Wake();
}

StatusOr<CreatedStorage> Session::Create(int64_t size_bytes, const std::optional<Header>& header,
                                         Device device, bool map, TimePoint deadline) {
  if (size_bytes < 0)
    return InvalidArgumentError(fmt::format("Create: a Storage of {} bytes cannot be", size_bytes));
  TB_ASSIGN_OR_RETURN(const std::shared_ptr<Link> link, GetLink(deadline));
  CreateCall call;
  call.call_id = link->NextCallId();
  call.size_bytes = size_bytes;
  call.header = header;
  call.device = device;
  call.releases = holds_.TakeRiders(kMaxRides).releases;  // what they had mapped is unmapped here
  const StatusOr<Created> created = link->calls().Create(call, deadline);
  if (created.ok()) {
    holds_.Delivered(call.releases.number);
  } else if (holds_.NotAnswered(call.releases.number)) {
    Wake();
  }
  if (!created.ok()) {
    AbandonIfUnknown(created.status(), call.call_id);
    return created.status();
  }
  if (created->grant.size_bytes != size_bytes) {
    Abandon(call.call_id);
    return InternalError(
        fmt::format("Create: the broker made {} bytes of {}", created->grant.size_bytes, size_bytes));
  }
  TB_ASSIGN_OR_RETURN(std::shared_ptr<HeldStorage> held,
                      Take(created->grant, GrantAccess::kReadWrite, map, deadline));
  return CreatedStorage{std::move(held), created->zeroed};
}

StatusOr<OpenedTensor> Session::Open(std::string_view name, const OpenOptions& options, TimePoint deadline) {
  TB_RETURN_IF_ERROR(Annotate(CheckName(name), "Open"));
  TB_ASSIGN_OR_RETURN(const std::shared_ptr<Link> link, GetLink(deadline));
  const uint64_t call_id = link->NextCallId();
  const GrantAccess access = options.writable ? GrantAccess::kReadWrite : GrantAccess::kReadOnly;
  StatusOr<OpenedName> opened = [&] {
    if (options.timeout <= Duration{0}) return link->calls().Open(call_id, name, access, deadline);
    return link->calls().AwaitOpen(call_id, name, access, options.timeout,
                                   DeadlineAfter(deadline, options.timeout));
  }();
  if (!opened.ok()) {
    AbandonIfUnknown(opened.status(), call_id);
    return opened.status();
  }
  if (const Status fits = CheckFits(opened->header, opened->grant.size_bytes); !fits.ok()) {
    Abandon(call_id);
    return InternalError(fmt::format("Open {}: the broker's header does not fit its Storage: {}",
                                     QuoteForMessage(name), Message(fits)));
  }
  // The call's own time may be used up by the wait for the name.
  TB_ASSIGN_OR_RETURN(std::shared_ptr<HeldStorage> held,
                      Take(opened->grant, access, options.map, std::max(deadline, DefaultDeadline())));
  return OpenedTensor{std::move(held), std::move(opened->header)};
}

StatusOr<std::shared_ptr<HeldStorage>> Session::Attach(StorageId id, const OpenOptions& options,
                                                       TimePoint deadline) {
  TB_ASSIGN_OR_RETURN(const std::shared_ptr<Link> link, GetLink(deadline));
  const uint64_t call_id = link->NextCallId();
  const GrantAccess access = options.writable ? GrantAccess::kReadWrite : GrantAccess::kReadOnly;
  const StatusOr<Grant> grant = link->calls().Attach(call_id, id, access, deadline);
  if (!grant.ok()) {
    AbandonIfUnknown(grant.status(), call_id);
    return grant.status();
  }
  return Take(*grant, access, options.map, deadline);
}

StatusOr<Token> Session::Export(const HeldStorage& held, TimePoint deadline) {
  TB_ASSIGN_OR_RETURN(const std::shared_ptr<Link> link, GetLink(deadline));
  const uint64_t call_id = link->NextCallId();
  StatusOr<Token> token = link->calls().Export(call_id, held.id(), held.access(), deadline);
  if (!token.ok()) AbandonIfUnknown(token.status(), call_id);
  return token;
}

StatusOr<OpenedTensor> Session::Import(std::string_view handle, TimePoint deadline) {
  TB_ASSIGN_OR_RETURN(TransferHandle transfer, DecodeHandle(handle));
  TB_ASSIGN_OR_RETURN(const std::shared_ptr<Link> link, GetLink(deadline));
  const uint64_t call_id = link->NextCallId();
  const StatusOr<Grant> grant = link->calls().Import(call_id, transfer.storage, transfer.token, deadline);
  if (!grant.ok()) {
    AbandonIfUnknown(grant.status(), call_id);
    return grant.status();
  }
  if (const Status fits = CheckFits(transfer.header, grant->size_bytes);
      !fits.ok() || grant->storage != transfer.storage || grant->device != transfer.header.device()) {
    Abandon(call_id);
    return InvalidArgumentError(fmt::format("Import: the handle does not fit Storage {}: {}",
                                            ToString(transfer.storage),
                                            fits.ok() ? "the broker has another one" : Message(fits)));
  }
  TB_ASSIGN_OR_RETURN(std::shared_ptr<HeldStorage> held, Take(*grant, transfer.access, true, deadline));
  return OpenedTensor{std::move(held), std::move(transfer.header)};
}

Status Session::Map(HeldStorage* held, TimePoint deadline) {
  const Grant& grant = held->grant();
  if (held->data() != nullptr || grant.size_bytes == 0) return OkStatus();
  if (grant.device.type != DeviceType::kCpu) {
    return UnimplementedError(
        fmt::format("Map: Storage {} is on {}, which is not mapped into the host's memory",
                    ToString(grant.storage), ToString(grant.device)));
  }
  std::shared_ptr<Mapping> mapping = holds_.FindMapping(held->hold(), held->access());
  if (mapping == nullptr) {
    TB_ASSIGN_OR_RETURN(const std::shared_ptr<Link> link, GetLink(deadline));
    StatusOr<Fd> segment =
        link->lease().GetSegment(grant.segment, held->access(), grant.segment_size_bytes, deadline);
    if (link->lease().has_notices()) Wake();
    TB_RETURN_IF_ERROR(segment.status());
    const Access access = held->access() == GrantAccess::kReadWrite ? Access::kReadWrite : Access::kReadOnly;
    StatusOr<Mapping> mapped = Mapping::Map(*segment, 0, grant.segment_size_bytes, access);
    if (!mapped.ok()) {
      return Annotate(mapped.status(),
                      fmt::format("Map: Storage {} ({} bytes)", ToString(grant.storage), grant.size_bytes));
    }
    mapping = holds_.AddMapping(held->hold(), held->access(), std::make_shared<Mapping>(*std::move(mapped)));
  }
  held->set_data(static_cast<std::byte*>(mapping->data()) + grant.segment_offset_bytes);
  return OkStatus();
}

// ---- the little things

SessionId Session::id() {
  MutexLock lock(mutex_);
  return link_ == nullptr ? SessionId{} : link_->session().id;
}

int64_t Session::wire_bytes() {
  MutexLock lock(mutex_);
  return link_ == nullptr ? 0 : link_->wire_bytes();
}

void Session::HandleGone(Hold* hold) {
  if (holds_.HandleGone(hold)) Wake();
}

void Session::LastUserGone() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  Wake();
}

void Session::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

// ---- fork: see Note [Locks at a fork]

void Session::LockForFork() TB_NO_THREAD_SAFETY_ANALYSIS {
  mutex_.Lock();
  holds_.Lock();
}

void Session::UnlockInParent() TB_NO_THREAD_SAFETY_ANALYSIS {
  holds_.Unlock();
  mutex_.Unlock();
  Wake();  // to watch the child
}

void Session::UnlockInChild() TB_NO_THREAD_SAFETY_ANALYSIS {
  holds_.UnlockInChild();
  if (link_ != nullptr) {
    // Leaked: its lease stays open, its gRPC objects are never touched.
    static auto* leaked = new std::vector<std::shared_ptr<Link>>;
    ancestors_.insert(ancestors_.begin(), link_->session().token);
    leaked->push_back(std::move(link_));
    link_ = nullptr;
  }
  opening_ = false;
  flush_wanted_ = flush_done_ = 0;
  wake_ = MakeWake();       // the parent's is shared with the parent
  new (&changed_) CondVar;  // those who waited on it are not in this process
  mutex_.Unlock();
}

HeldStorage::~HeldStorage() { session_->HandleGone(hold_); }
int64_t HeldStorage::use_count() const { return session_->UseCount(hold_); }
Status HeldStorage::Map() { return session_->Map(this, session_->DefaultDeadline()); }

}  // namespace tensorbroker::internal
