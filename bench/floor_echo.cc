// The floor's server: floor_echo DIRECTORY. A synchronous gRPC echo on DIRECTORY/echo.sock, built with the same library as
// the broker; and on DIRECTORY/fd.sock descriptors over SCM_RIGHTS: an int64 asks for so many bytes, and the answer
// carries a file of that size in DIRECTORY-on-tmpfs ($FLOOR_SHM): a new one, filled by posix_fallocate; or, where the
// number is negative, the same sparse file again, its first page filled. Ends with its stdin.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "echo.grpc.pb.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/ipc/socket.h"

namespace {

class EchoService final : public tensorbroker::bench::Echo::Service {
  grpc::Status Call(grpc::ServerContext*, const tensorbroker::bench::EchoRequest* request,
                    tensorbroker::bench::EchoReply* reply) override {
    reply->mutable_payload()->assign(request->reply_bytes(), 'r');
    return grpc::Status::OK;
  }
};

// A file that goes with its last descriptor.
tensorbroker::Fd NewFile(const std::string& directory) {
  static int number = 0;
  const std::string path = directory + "/floor" + std::to_string(number++);
  tensorbroker::Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  unlink(path.c_str());
  return fd;
}

void ServeDescriptors(int listener, const std::string& directory) {
  std::map<int64_t, tensorbroker::Fd> sparse;
  for (int connection; (connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;
       close(connection)) {
    int64_t wanted = 0;
    while (recv(connection, &wanted, sizeof(wanted), MSG_WAITALL) == sizeof(wanted)) {
      tensorbroker::Fd fresh;
      int fd = -1;
      if (wanted >= 0) {
        fresh = NewFile(directory);
        fd = fresh.get();
        if (posix_fallocate(fd, 0, wanted) != 0) std::perror("posix_fallocate");
      } else {
        tensorbroker::Fd& file = sparse[wanted];
        if (file.get() < 0) {
          file = NewFile(directory);
          if (ftruncate(file.get(), -wanted) != 0 || posix_fallocate(file.get(), 0, 4096) != 0)
            std::perror("ftruncate");
        }
        fd = file.get();
      }
      const char byte = 'f';
      if (!tensorbroker::SendWithFd(connection, std::as_bytes(std::span(&byte, 1)), fd).ok()) break;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* shm = std::getenv("FLOOR_SHM");
  if (argc != 2 || shm == nullptr) return 2;
  const std::string directory = argv[1];
  EchoService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + directory + "/echo.sock", grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();

  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX};
  std::snprintf(address.sun_path, sizeof(address.sun_path), "%s/fd.sock", directory.c_str());
  if (!server || bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, 8) != 0) {
    std::perror("floor_echo");
    return 1;
  }
  std::thread descriptors([listener, shm] { ServeDescriptors(listener, shm); });
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  std::_Exit(0);
}
