#include "tensorbroker/files/npy.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/tensor/copy.h"
#include "tensorbroker/tensor/scalar.h"
#include "tensorbroker/tensor/views.h"

namespace tensorbroker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// A directory of its own for each test, gone with it.
class Npy : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tensorbroker-npy-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return (directory_ / name).string(); }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_))
      names.push_back(entry.path().filename());
    return names;
  }
  static std::string Contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void Put(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  std::filesystem::path directory_;
};

struct Loaded {
  Header header;
  std::vector<std::byte> bytes;
};

StatusOr<Loaded> Load(const std::string& path, std::optional<DType> dtype = {}) {
  TB_ASSIGN_OR_RETURN(NpyReader reader, NpyReader::Open(path, dtype));
  Loaded loaded{reader.header(), std::vector<std::byte>(static_cast<size_t>(reader.header().nbytes()))};
  TB_RETURN_IF_ERROR(reader.ReadInto(loaded.bytes));
  return loaded;
}

std::vector<std::byte> Counting(int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 % 251);
  return bytes;
}

std::vector<std::byte> Dense(const Header& header, std::span<const std::byte> storage) {
  std::vector<std::byte> result(static_cast<size_t>(header.nbytes()));
  EXPECT_TRUE(CopyStrided(*Header::Contiguous(header.shape(), header.dtype()), result, header, storage).ok());
  return result;
}

int64_t Sum(const Loaded& loaded) {
  std::vector<int64_t> numbers(static_cast<size_t>(loaded.header.numel()));
  EXPECT_TRUE(CopyStrided(*Header::Contiguous(loaded.header.shape(), DType::kInt64),
                          std::as_writable_bytes(std::span(numbers)), loaded.header, loaded.bytes)
                  .ok());
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

TEST_F(Npy, RealFilesHaveTheirSums) {
  const std::string data = TB_TEST_DATA_DIR;
  const auto check = [&](const std::string& name, DType dtype, const Dims& shape, int64_t sum) {
    const auto loaded = Load(data + "/" + name);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->header.dtype(), dtype);
    EXPECT_EQ(loaded->header.shape(), shape);
    EXPECT_EQ(Sum(*loaded), sum) << name;
  };
  check("digits_images.npy", DType::kUInt8, {1797, 8, 8}, 561718);
  check("digits_labels.npy", DType::kInt64, {1797}, 8070);
  check("photos.npy", DType::kUInt8, {2, 214, 320, 3}, 42242333);
  check("photo_fortran.npy", DType::kUInt8, {214, 320, 3}, 29525894);
}

TEST_F(Npy, AFortranFileHoldsTheSamePhotoAsTheRowMajorOne) {
  const auto photos = Load(std::string(TB_TEST_DATA_DIR) + "/photos.npy");
  const auto fortran = Load(std::string(TB_TEST_DATA_DIR) + "/photo_fortran.npy");
  ASSERT_TRUE(photos.ok() && fortran.ok());
  EXPECT_EQ(fortran->header.strides(), (Dims{1, 214, 214 * 320}));
  EXPECT_EQ(Dense(fortran->header, fortran->bytes),
            Dense(*views::Select(photos->header, 0, 0), photos->bytes));
  // Written again, both are what they were, byte for byte.
  ASSERT_TRUE(WriteNpy(Path("f.npy"), fortran->header, fortran->bytes).ok());
  EXPECT_EQ(Contents(Path("f.npy")), Contents(std::string(TB_TEST_DATA_DIR) + "/photo_fortran.npy"));
  ASSERT_TRUE(WriteNpy(Path("p.npy"), photos->header, photos->bytes).ok());
  EXPECT_EQ(Contents(Path("p.npy")), Contents(std::string(TB_TEST_DATA_DIR) + "/photos.npy"));
}

TEST_F(Npy, AViewWritesItsOwnElementsOnly) {
  const Header base = *Header::Contiguous({1000, 100}, DType::kFloat32);
  const std::vector<std::byte> storage = Counting(base.nbytes());
  const Header rows = *views::Narrow(base, 0, 300, 100);
  ASSERT_TRUE(WriteNpy(Path("rows.npy"), rows, storage).ok());
  EXPECT_EQ(std::filesystem::file_size(Path("rows.npy")), 128u + 100 * 100 * 4);
  EXPECT_EQ(Load(Path("rows.npy"))->bytes, Dense(rows, storage));
}

TEST_F(Npy, EveryDTypeAndViewComesBack) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    const Header base = *Header::Contiguous({3, 4, 5}, dtype);
    const std::vector<std::byte> storage = Counting(base.nbytes());
    for (const Header& header :
         {base, *views::Permute(base, {2, 0, 1}), *views::Flip(base, {0, 2}), *views::Slice(base, 1, 0, 4, 2),
          *views::Select(base, 1, 2), *views::Narrow(base, 0, 1, 0), *views::Permute(base, {2, 1, 0})}) {
      ASSERT_TRUE(WriteNpy(Path("x.npy"), header, storage).ok());
      const auto loaded = Load(Path("x.npy"), dtype);
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(loaded->header.shape(), header.shape());
      EXPECT_EQ(Dense(loaded->header, loaded->bytes), Dense(header, storage)) << ToString(header);
    }
  }
}

TEST_F(Npy, LargeStridedViewsAreWrittenInChunks) {
  const Header base = *Header::Contiguous({3, 2, 700, 1100}, DType::kFloat32);
  const std::vector<std::byte> storage = Counting(base.nbytes());
  const Header view = *views::Flip(*views::Transpose(base, 2, 3), {2});
  std::vector<int64_t> steps;
  ASSERT_TRUE(WriteNpy(Path("x.npy"), view, storage,
                       {.progress =
                            [&](int64_t done, int64_t total) {
                              EXPECT_EQ(total, view.nbytes());
                              steps.push_back(done);
                              return true;
                            }})
                  .ok());
  EXPECT_GT(steps.size(), 3u);
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
  EXPECT_EQ(steps.back(), view.nbytes());
  EXPECT_EQ(Load(Path("x.npy"))->bytes, Dense(view, storage));
}

TEST_F(Npy, BigEndianNumbersAreTurnedAround) {
  const std::string header = "{'descr': '>c8', 'fortran_order': False, 'shape': (1,), }";
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size());
  file += '\0';
  Put(Path("x.npy"), file + header + std::string("\x3f\x80\x00\x00\xc0\x00\x00\x00", 8));
  const auto loaded = Load(Path("x.npy"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*Item(loaded->header, loaded->bytes), Scalar(std::complex<float>(1, -2)));
}

TEST_F(Npy, AFileCutShortIsDataLossBeforeAnyRoomIsMade) {
  const Header header = *Header::Contiguous({100}, DType::kInt32);
  ASSERT_TRUE(WriteNpy(Path("x.npy"), header, Counting(400)).ok());
  std::filesystem::resize_file(Path("x.npy"), 128 + 399);
  const Status status = NpyReader::Open(Path("x.npy")).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("399 bytes"));
  EXPECT_THAT(std::string(Message(status)), HasSubstr(Path("x.npy")));
}

TEST_F(Npy, APipeIsReadAndWrittenAsItComes) {
  const std::string pipe = Path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Header header = *Header::Contiguous({100}, DType::kInt32);
  Status written;
  std::thread writer([&] { written = WriteNpy(pipe, header, Counting(400)); });
  const auto loaded = Load(pipe);
  writer.join();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(written.ok()) << written;
  EXPECT_EQ(loaded->bytes, Counting(400));
  // One that ends too early says so.
  std::thread cutter([&] { Put(pipe, FormatNpyHeader(header, false) + "abc"); });
  const Status status = Load(pipe).status();
  cutter.join();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
}

TEST_F(Npy, FilesThatCannotBeReadSayWhy) {
  EXPECT_EQ(NpyReader::Open(Path("none.npy")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(NpyReader::Open(directory_.string()).status().code(), StatusCode::kInvalidArgument);
  Put(Path("text.npy"), "hello");
  const Status status = NpyReader::Open(Path("text.npy")).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("text.npy: not a .npy file"));
}

TEST_F(Npy, AFullDiskIsSaidAndLeavesNothing) {
  const Header header = *Header::Contiguous({100000}, DType::kInt32);
  const std::vector<std::byte> storage = Counting(header.nbytes());
  EXPECT_EQ(WriteNpy("/dev/full", header, storage).code(), StatusCode::kResourceExhausted);

  Put(Path("x.npy"), "old");
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = WriteNpy(Path("x.npy"), header, storage);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Names(), std::vector<std::string>{"x.npy"});
  EXPECT_EQ(Contents(Path("x.npy")), "old");
}

TEST_F(Npy, AStoppedWriteLeavesNothing) {
  const Header header = *Header::Contiguous({10}, DType::kInt32);
  const auto stop = [](int64_t, int64_t) { return false; };
  EXPECT_EQ(WriteNpy(Path("x.npy"), header, Counting(40), {.progress = stop}).code(), StatusCode::kCancelled);
  EXPECT_THAT(Names(), IsEmpty());
  ASSERT_TRUE(WriteNpy(Path("x.npy"), header, Counting(40)).ok());
  std::vector<std::byte> bytes(40);
  EXPECT_EQ(NpyReader::Open(Path("x.npy"))->ReadInto(bytes, stop).code(), StatusCode::kCancelled);
}

// However the process ends: SIGKILL in the middle of the write.
TEST_F(Npy, AKilledWriteLeavesNothing) {
  const Header header = *Header::Contiguous({10}, DType::kInt32);
  Put(Path("old.npy"), "old");
  for (const char* name : {"new.npy", "old.npy"}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto die = [](int64_t, int64_t) { return ::raise(SIGKILL) == 0; };
      static_cast<void>(WriteNpy(Path(name), header, Counting(40), {.progress = die}));
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  EXPECT_EQ(Names(), std::vector<std::string>{"old.npy"});
  EXPECT_EQ(Contents(Path("old.npy")), "old");
}

TEST_F(Npy, ATemporaryNameIsToldWhileItIsThere) {
  const Header header = *Header::Contiguous({10}, DType::kInt32);
  Put(Path("x.npy"), "old");
  std::vector<std::string> told;
  WriteOptions options;
  options.temporary = [&](const std::string& path) {
    EXPECT_TRUE(told.empty() || !std::filesystem::exists(told.back()));
    told.push_back(path);
  };
  ASSERT_TRUE(WriteNpy(Path("x.npy"), header, Counting(40), options).ok());
  ASSERT_EQ(told.size(), 2u);
  EXPECT_THAT(told.front(), ::testing::StartsWith(Path("x.npy.")));
  EXPECT_EQ(told.back(), "");
  EXPECT_EQ(Names(), std::vector<std::string>{"x.npy"});
}

TEST_F(Npy, AFileIsKeptWhereAskedAlsoOneThatCameWhileWriting) {
  const Header header = *Header::Contiguous({10}, DType::kInt32);
  WriteOptions keep{.old_file = OldFile::kKeep};
  ASSERT_TRUE(WriteNpy(Path("x.npy"), header, Counting(40), keep).ok());
  const std::string written = Contents(Path("x.npy"));
  EXPECT_EQ(WriteNpy(Path("x.npy"), header, Counting(40), keep).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Contents(Path("x.npy")), written);

  keep.progress = [&](int64_t, int64_t) {  // between the look and the write's end
    Put(Path("late.npy"), "mine");
    return true;
  };
  const Status late = WriteNpy(Path("late.npy"), header, Counting(40), keep);
  EXPECT_EQ(late.code(), StatusCode::kAlreadyExists) << late;
  EXPECT_EQ(Contents(Path("late.npy")), "mine");
  keep.old_file = OldFile::kReplace;
  EXPECT_TRUE(WriteNpy(Path("late.npy"), header, Counting(40), keep).ok());
  EXPECT_EQ(Contents(Path("late.npy")), written);

  std::filesystem::create_symlink("nowhere", Path("link.npy"));
  keep = {.old_file = OldFile::kKeep};
  EXPECT_EQ(WriteNpy(Path("link.npy"), header, Counting(40), keep).code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(WriteNpy("/dev/null", header, Counting(40), keep).ok()) << "a device is written to";
  EXPECT_THAT(Names(), UnorderedElementsAre("x.npy", "late.npy", "link.npy"));
}

TEST_F(Npy, ALinkStaysAndItsTargetIsWritten) {
  namespace fs = std::filesystem;
  const Header header = *Header::Contiguous({10}, DType::kInt32);
  fs::create_directory(Path("d"));
  Put(Path("d/x.npy"), "old");
  fs::create_symlink("x.npy", Path("d/inner"));
  fs::create_symlink("d/inner", Path("link"));
  fs::create_symlink("d/new.npy", Path("dangling"));
  fs::create_symlink("loop", Path("loop"));
  EXPECT_EQ(WriteNpy(Path("link"), header, Counting(40), {.old_file = OldFile::kKeep}).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(Contents(Path("d/x.npy")), "old");
  for (const char* link : {"link", "dangling"}) {
    const Status written = WriteNpy(Path(link), header, Counting(40));
    EXPECT_TRUE(written.ok()) << written;
    EXPECT_TRUE(fs::is_symlink(Path(link))) << link;
  }
  EXPECT_EQ(fs::file_size(Path("d/x.npy")), 168u);
  EXPECT_EQ(fs::file_size(Path("d/new.npy")), 168u);
  EXPECT_FALSE(WriteNpy(Path("loop"), header, Counting(40)).ok());
  EXPECT_THAT(Names(), UnorderedElementsAre("d", "link", "dangling", "loop"));
}

// `get -f X /dev/stdout >file` as root replaced /dev/stdout itself.
TEST_F(Npy, AnOpenFileIsWrittenToWhereItStands) {
  const Header header = *Header::Contiguous({10}, DType::kInt32);
  Put(Path("out"), "before ");
  const Fd out(::open(Path("out").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  ASSERT_TRUE(out.valid());
  const std::string number = std::to_string(out.get());
  std::filesystem::create_symlink("/proc/self/fd/" + number, Path("stdout"));
  for (const std::string& path : {"/proc/self/fd/" + number, "/dev/fd/" + number, Path("stdout")}) {
    for (const OldFile old_file : {OldFile::kReplace, OldFile::kKeep}) {
      const Status written = WriteNpy(path, header, Counting(40), {.old_file = old_file});
      EXPECT_TRUE(written.ok()) << path << ": " << written;
    }
  }
  EXPECT_EQ(Contents(Path("out")).size(), 7u + 6u * 168u);
  EXPECT_TRUE(std::filesystem::is_symlink(Path("stdout")));
  EXPECT_FALSE(WriteNpy("/proc/self/fd/99999", header, Counting(40)).ok());
  EXPECT_THAT(Names(), UnorderedElementsAre("out", "stdout"));
}

TEST_F(Npy, WhatCannotBeWrittenIsRefused) {
  const Header header = *Header::Contiguous({10}, DType::kInt32);
  EXPECT_EQ(WriteNpy(Path("no/x.npy"), header, Counting(40)).code(), StatusCode::kNotFound);
  for (const OldFile old_file : {OldFile::kReplace, OldFile::kKeep}) {
    EXPECT_EQ(WriteNpy(directory_.string(), header, Counting(40), {.old_file = old_file}).code(),
              StatusCode::kInvalidArgument);
  }
  std::filesystem::create_directory(Path("d"));
  std::filesystem::create_symlink("d", Path("link"));
  for (const std::string& path : {Path("d"), Path("d/"), Path("link"), Path("none/"), std::string()}) {
    const Status status = WriteNpy(path, header, Counting(40));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(Message(status)),
                HasSubstr(path.empty() ? "no file is named" : "name a file in it"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(Path("d")));
  std::filesystem::remove(Path("d"));
  std::filesystem::remove(Path("link"));
  EXPECT_EQ(WriteNpy(Path("x.npy"), header, Counting(39)).code(), StatusCode::kOutOfRange);
  const Header on_gpu = *Header::Contiguous({10}, DType::kInt32, {DeviceType::kCuda, 0});
  EXPECT_EQ(WriteNpy(Path("x.npy"), on_gpu, Counting(40)).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Names(), IsEmpty());
}

}  // namespace
}  // namespace tensorbroker
