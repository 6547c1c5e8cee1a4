// tensorctl put, get, print
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "tensorbroker/base/name.h"
#include "tensorbroker/cli/commands.h"
#include "tensorbroker/cli/context.h"
#include "tensorbroker/cli/index.h"
#include "tensorbroker/cli/json.h"
#include "tensorbroker/cli/progress.h"
#include "tensorbroker/cli/text.h"
#include "tensorbroker/files/npy.h"
#include "tensorbroker/tensor/format.h"

namespace tensorbroker::cli {
namespace {

struct PutArguments {
  std::string name;
  std::string file;
  std::string dtype;
  bool replace = false;
  Duration ttl{0};
};

std::string TensorLine(const std::string& name, const Header& header, const Context& context) {
  return fmt::format("{}  {} {}  {}", Printable(name), Name(header.dtype()), ToString(header.shape()),
                     context.Bytes(header.nbytes()));
}

// The file's bytes go straight into the Storage; until it is published, an error leaves nothing.
StatusOr<int> Put(Context& context, const PutArguments& arguments) {
  TB_RETURN_IF_ERROR(CheckName(arguments.name));  // before a long read
  std::optional<DType> dtype;
  if (!arguments.dtype.empty()) {
    TB_ASSIGN_OR_RETURN(dtype, ParseDType(arguments.dtype));
  }
  TB_ASSIGN_OR_RETURN(NpyReader reader, NpyReader::Open(arguments.file, dtype));
  TB_ASSIGN_OR_RETURN(Client client, context.Connect());
  TB_ASSIGN_OR_RETURN(Storage storage, client.CreateStorage(reader.header().nbytes()));
  {
    Progress progress(context.console(), "put " + arguments.name);
    TB_RETURN_IF_ERROR(reader.ReadInto(storage.mutable_bytes(), [&](int64_t done, int64_t total) {
      progress.Update(done, total);
      return true;
    }));
  }
  TB_ASSIGN_OR_RETURN(const Tensor tensor, Tensor::Over(storage, reader.header()));
  TB_RETURN_IF_ERROR(tensor.Publish(arguments.name, {.replace = arguments.replace, .ttl = arguments.ttl}));
  Print(context.json() ? TensorJson(arguments.name, storage.id(), tensor.header())
                       : TensorLine(arguments.name, tensor.header(), context) + "\n");
  return 0;
}

// The tensor of `name`, or the part of it that `slice` says; not mapped yet.
StatusOr<Tensor> OpenView(Client& client, const std::string& name, const std::string& slice) {
  std::vector<IndexPart> parts;
  if (!slice.empty()) {
    TB_ASSIGN_OR_RETURN(parts, ParseIndex(slice));
  }
  TB_ASSIGN_OR_RETURN(const Tensor tensor, client.Open(name, {.map = false}));
  return ApplyIndex(tensor, parts);
}

// Whether what is written to `path` appears on stdout.
bool IsStdout(const std::string& path) {
  struct stat file {};
  struct stat out {};
  return stat(path.c_str(), &file) == 0 && fstat(STDOUT_FILENO, &out) == 0 && file.st_dev == out.st_dev &&
         file.st_ino == out.st_ino;
}

// A file that a signal which ends this process has to remove: its name in `unfinished`, "" for none.
char unfinished[PATH_MAX] = "";

void EndBySignal(int signal) {
  if (unfinished[0] != '\0') unlink(unfinished);
  raise(signal);  // SA_RESETHAND: now it does what it does by default
}

void RemoveUnfinishedAtSignals() {
  struct sigaction end {};
  end.sa_handler = &EndBySignal;
  end.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction before {};
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
      sigaction(signal, &end, nullptr);
  }
}

// Seen whole by a handler: the first byte comes last, and goes first.
void SetUnfinished(const std::string& path) {
  unfinished[0] = '\0';
  if (path.empty() || path.size() >= sizeof unfinished) return;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(unfinished + 1, path.c_str() + 1, path.size());
  std::atomic_signal_fence(std::memory_order_seq_cst);
  unfinished[0] = path[0];
}

struct GetArguments {
  std::string name;
  std::string file;
  std::string slice;
  bool force = false;
};

StatusOr<int> Get(Context& context, const GetArguments& arguments) {
  TB_ASSIGN_OR_RETURN(Client client, context.Connect());
  TB_ASSIGN_OR_RETURN(const Tensor tensor, OpenView(client, arguments.name, arguments.slice));
  TB_RETURN_IF_ERROR(tensor.Map());
  const bool to_stdout = IsStdout(arguments.file);
  {
    Progress progress(context.console(), "get " + arguments.name);
    WriteOptions options;
    options.progress = [&](int64_t done, int64_t total) {
      progress.Update(done, total);
      return true;
    };
    RemoveUnfinishedAtSignals();
    options.temporary = SetUnfinished;
    options.old_file = arguments.force ? OldFile::kReplace : OldFile::kKeep;
    const Status written = WriteNpy(arguments.file, tensor.header(), tensor.storage().bytes(), options);
    if (written.code() == StatusCode::kAlreadyExists) {
      return AlreadyExistsError(fmt::format("{}; --force overwrites it", Message(written)));
    }
    TB_RETURN_IF_ERROR(written);
  }
  const std::string done =
      context.json() ? GetJson(arguments.name, arguments.file, tensor.nbytes(), tensor.header())
                     : fmt::format("{}  to {}\n", TensorLine(arguments.name, tensor.header(), context),
                                   Printable(arguments.file));
  to_stdout ? PrintError(done) : Print(done);
  return 0;
}

struct PrintArguments {
  std::string name;
  std::string slice;
  bool full = false;
};

StatusOr<int> PrintTensor(Context& context, const PrintArguments& arguments) {
  TB_ASSIGN_OR_RETURN(Client client, context.Connect());
  TB_ASSIGN_OR_RETURN(const Tensor tensor, OpenView(client, arguments.name, arguments.slice));
  TB_RETURN_IF_ERROR(tensor.Map());
  FormatOptions options;
  if (arguments.full) options.threshold = std::numeric_limits<int64_t>::max();
  TB_ASSIGN_OR_RETURN(const std::string values, Format(tensor.header(), tensor.storage().bytes(), options));
  Print(context.json() ? PrintJson(arguments.name, tensor.header(), values) : values + "\n");
  return 0;
}

}  // namespace

void AddTransferCommands(CommandLine& line) {
  const auto put = std::make_shared<PutArguments>();
  line.Add("put", "Read a .npy file into a new Storage and publish it")
      .Describe(
          "The bytes are read straight into shared memory, and the name is there once they all are; a put "
          "that fails "
          "leaves nothing. A Fortran file keeps its order. The tensor outlives this command: `tensorctl rm "
          "NAME`.")
      .Argument("NAME", &put->name, "the name to publish it by")
      .Argument("FILE", &put->file, "a .npy file, or a pipe", Completes::kFile)
      .Flag("--replace", &put->replace, "also where a live process has published NAME")
      .Time("--ttl", &put->ttl, "remove the name after this time: 10min, 2h")
      .Text("--dtype", &put->dtype, "DTYPE",
            "the element type of a file that cannot say it: bfloat16 is V2 in a .npy")
      .Example("tensorctl put data/images images.npy", "Share an array with every process of this user")
      .Run([put](Context& context) { return Put(context, *put); });
  const auto get = std::make_shared<GetArguments>();
  line.Add("get", "Write a tensor to a .npy file")
      .Describe(
          "A view writes its own elements only, not its Storage. The file appears whole or not at all. A "
          "pipe, "
          "a device and /dev/stdout are written to as they are; what is to be said goes to stderr then.")
      .Argument("NAME", &get->name, "the tensor", Completes::kTensor)
      .Argument("FILE", &get->file, "where to write", Completes::kFile)
      .Text("--slice", &get->slice, "INDEX",
            "a part of it, as Python indexes: 0:100, 3, ::2 or several with commas")
      .Flag("-f,--force", &get->force, "overwrite FILE")
      .Example("tensorctl get weights/live weights.npy", "Save a tensor")
      .Example("tensorctl get data/images head.npy --slice 0:100", "Save its first 100 rows")
      .Run([get](Context& context) { return Get(context, *get); });
  const auto print = std::make_shared<PrintArguments>();
  line.Add("print", "Print a tensor's values as torch does, summarised")
      .Argument("NAME", &print->name, "the tensor", Completes::kTensor)
      .Text("--slice", &print->slice, "INDEX",
            "a part of it, as Python indexes: 0:100, 3, ::2 or several with commas")
      .Flag("--full", &print->full, "every element, however many")
      .Example("tensorctl print data/images --slice 0", "The first image")
      .Run([print](Context& context) { return PrintTensor(context, *print); });
}

}  // namespace tensorbroker::cli
