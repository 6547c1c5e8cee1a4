// Server streams that hold no thread: pages of a list, and events.
#ifndef TENSORBROKER_SERVER_STREAMS_H_
#define TENSORBROKER_SERVER_STREAMS_H_

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorbroker/base/mutex.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/proto/convert.h"
#include "tensorbroker/proto/grpc_status.h"
#include "tensorbroker/server/broker.h"
#include "tensorbroker/v1/broker.pb.h"

namespace tensorbroker {

// A message of a list ends at the record that passes this.
inline constexpr size_t kListMessageBytes = 256 * 1024;

// Writes `Record`s page by page, the next when the client has taken the last. Deletes itself at its end.
template <typename Reply, typename Record, typename NextPage, typename AddRecord>
class PagesReactor final : public grpc::ServerWriteReactor<Reply> {
 public:
  PagesReactor(std::shared_ptr<Connection> connection, NextPage next_page, AddRecord add_record)
      : connection_(std::move(connection)),
        next_page_(std::move(next_page)),
        add_record_(std::move(add_record)) {
    Next();
  }
  void OnWriteDone(bool ok) override {
    if (ok) {
      Next();
    } else {
      this->Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller has left"));
    }
  }
  void OnDone() override {
    mutex_.Lock();  // what the last thread wrote is seen here
    mutex_.Unlock();
    delete this;
  }

 private:
  void Next() {
    MutexLock lock(mutex_);
    if (connection_ == nullptr) {
      return this->Finish(ToGrpc(UnavailableError("the connection has ended; connect again")));
    }
    while (records_.empty() && !end_) {
      StatusOr<std::vector<Record>> page = next_page_(*connection_, &cursor_, &end_);
      if (!page.ok()) return this->Finish(ToGrpc(page.status()));
      records_.assign(std::make_move_iterator(page->begin()), std::make_move_iterator(page->end()));
    }
    if (records_.empty()) return this->Finish(grpc::Status::OK);
    reply_.Clear();
    for (size_t bytes = 0; !records_.empty() && bytes < kListMessageBytes; records_.pop_front()) {
      auto* const record = add_record_(reply_);
      ToProto(records_.front(), record);
      bytes += record->ByteSizeLong();
    }
    this->StartWrite(&reply_);
  }

  Mutex mutex_;  // gRPC calls one at a time, but by locks that are not ours to rely on
  const std::shared_ptr<Connection> connection_;
  const NextPage next_page_;
  const AddRecord add_record_;
  uint64_t cursor_ = 0;
  bool end_ = false;
  std::deque<Record> records_;
  Reply reply_;
};

template <typename Reply, typename Record, typename NextPage, typename AddRecord>
grpc::ServerWriteReactor<Reply>* StartPages(std::shared_ptr<Connection> connection, NextPage next_page,
                                            AddRecord add_record) {
  return new PagesReactor<Reply, Record, NextPage, AddRecord>(std::move(connection), std::move(next_page),
                                                              std::move(add_record));
}

// Writes an empty message, then the events of a watch until it is over.
grpc::ServerWriteReactor<v1::WatchReply>* StartWatch(Broker* broker,
                                                     const std::shared_ptr<Connection>& connection,
                                                     const std::string& token, const std::string& prefix);

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_STREAMS_H_
