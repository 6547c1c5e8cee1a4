// put and get against a real broker: files, slices, and what a failure leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tensorbroker/client/client.h"
#include "tensorbroker/client/inspector.h"
#include "tests/cli/schema.h"
#include "tests/cli/tensorctl_process.h"
#include "tests/support/broker_process.h"

namespace tensorbroker::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void WriteFile(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class TensorctlFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto broker = testing::BrokerProcess::Start({"--capacity", "256MiB"});
    ASSERT_TRUE(broker.ok()) << broker.status();
    broker_ = *std::move(broker);
    std::string pattern = (fs::temp_directory_path() / "tb-cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  ~TensorctlFilesTest() override {
    std::error_code error;
    fs::remove_all(directory_, error);
  }

  Result Run(Words words) const {
    words.insert(words.begin(), {"--socket", broker_->socket()});
    return Tensorctl(std::move(words));
  }
  std::string Path(const std::string& name) const { return (directory_ / name).string(); }
  size_t CountFiles() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }
  Client Connect() const {
    auto client = Client::Connect({.socket = broker_->socket(), .label = "test"});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  std::unique_ptr<testing::BrokerProcess> broker_;
  fs::path directory_;
};

TEST_F(TensorctlFilesTest, PutThenGetGivesTheSameFileBackFortranOrderIncluded) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(TENSORBROKER_EXAMPLE_DATA)) {
    if (entry.path().extension() != ".npy") continue;
    ++files;
    const std::string name = "data/" + entry.path().stem().string();
    const Result put = Run({"put", name, entry.path().string(), "--json"});
    ASSERT_EQ(put.code, 0) << put.err;
    EXPECT_EQ(CheckAgainstSchema(put.out, "put"), "") << put.out;
    const Result get = Run({"get", name, Path("out.npy"), "--force", "--json"});
    ASSERT_EQ(get.code, 0) << get.err;
    EXPECT_EQ(CheckAgainstSchema(get.out, "get"), "") << get.out;
    EXPECT_TRUE(ReadFile(entry.path()) == ReadFile(Path("out.npy"))) << entry.path() << " differs";
  }
  EXPECT_GE(files, 4);
  EXPECT_EQ(CountFiles(), 1u) << "a temporary file was left";
}

TEST_F(TensorctlFilesTest, GetOfAViewWritesItsOwnElementsOnly) {
  Client client = Connect();
  const Tensor whole = *client.Arange(0, 1'000'000, 1, DType::kFloat32)->View(Dims{1000, 1000});
  ASSERT_TRUE(whole.Narrow(0, 7, 1)->Publish("row").ok());
  ASSERT_TRUE(whole.Select(1, 3)->Publish("column").ok());
  for (const char* name : {"row", "column"}) {
    ASSERT_EQ(Run({"get", name, Path(std::string(name) + ".npy")}).code, 0);
    EXPECT_EQ(fs::file_size(Path(std::string(name) + ".npy")), 128u + 4000u);
  }
  ASSERT_EQ(Run({"put", "column/again", Path("column.npy")}).code, 0);
  const StatusOr<Tensor> again = client.Open("column/again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->data<const float>()[999], 999'003.0F);
}

TEST_F(TensorctlFilesTest, GetOfASliceWritesThatManyRows) {
  Client client = Connect();
  ASSERT_TRUE(client.Zeros({1000, 250})->Publish("w").ok());
  ASSERT_EQ(Run({"get", "w", Path("w.npy"), "--slice", "0:100"}).code, 0);
  EXPECT_EQ(fs::file_size(Path("w.npy")), 128u + 100u * 1000u);
  const Result outside = Run({"get", "w", Path("x.npy"), "--slice", "0,0,0"});
  EXPECT_EQ(outside.code, 1);
  EXPECT_FALSE(fs::exists(Path("x.npy")));
}

TEST_F(TensorctlFilesTest, GetOverwritesOnlyWhenForced) {
  Client client = Connect();
  ASSERT_TRUE(client.Zeros({3})->Publish("w").ok());
  WriteFile(Path("w.npy"), "mine");
  const Result refused = Run({"get", "w", Path("w.npy")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, StartsWith("tensorctl: get: ALREADY_EXISTS: "));
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  EXPECT_EQ(ReadFile(Path("w.npy")), "mine");
  EXPECT_EQ(Run({"get", "w", Path("w.npy"), "--force"}).code, 0);
  EXPECT_EQ(fs::file_size(Path("w.npy")), 128u + 12u);
  EXPECT_EQ(Run({"get", "none", Path("w.npy"), "--force"}).code, 1);
  EXPECT_EQ(fs::file_size(Path("w.npy")), 128u + 12u) << "a failed get leaves the old file";
  EXPECT_EQ(Run({"get", "w", "/dev/null"}).code, 0) << "a device is written to";
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(CountFiles(), 1u);
}

TEST_F(TensorctlFilesTest, GetToStdoutHasTheBytesThereAndTheRestOnStderr) {
  Client client = Connect();
  ASSERT_TRUE(client.Zeros({3})->Publish("w").ok());
  fs::create_symlink("/proc/self/fd/1", Path("stdout"));  // as /dev/stdout is
  for (const Words& words : {Words{"get", "w", Path("stdout")}, Words{"get", "w", Path("stdout"), "--force"},
                             Words{"get", "w", "/proc/self/fd/1", "--json"}}) {
    const Result piped = Run(words);
    ASSERT_EQ(piped.code, 0) << piped.err;
    EXPECT_EQ(piped.out.size(), 128u + 12u);
    EXPECT_THAT(piped.err, HasSubstr("float32"));
  }
  // Where stdout is a file, it is that file that gets them.
  const Result sh = TensorctlProcess({"-c", "\"$0\" --socket \"$1\" get -f w \"$2\" >\"$3\"", TensorctlPath(),
                                      broker_->socket(), Path("stdout"), Path("w.npy")},
                                     {}, Stdout::kPipe, "/bin/sh")
                        .Wait();
  EXPECT_EQ(sh.code, 0) << sh.err;
  EXPECT_TRUE(fs::is_symlink(Path("stdout")));
  EXPECT_EQ(fs::file_size(Path("w.npy")), 128u + 12u);
  EXPECT_EQ(CountFiles(), 2u);
}

TEST_F(TensorctlFilesTest, AFailedPutLeavesNothing) {
  const std::string good = ReadFile(fs::path(TENSORBROKER_EXAMPLE_DATA) / "digits_labels.npy");
  WriteFile(Path("text.npy"), "these are no numbers\n");
  WriteFile(Path("empty.npy"), "");
  WriteFile(Path("short.npy"), good.substr(0, good.size() - 1));
  fs::create_directory(Path("directory.npy"));
  for (const char* file : {"text.npy", "empty.npy", "short.npy", "directory.npy", "none.npy"}) {
    const Result result = Run({"put", "w", Path(file)});
    EXPECT_EQ(result.code, 1) << file;
    EXPECT_THAT(result.err, StartsWith("tensorctl: put: ")) << file;
    EXPECT_THAT(result.err, HasSubstr(file));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }
  WriteFile(Path("good.npy"), good);
  EXPECT_EQ(Run({"put", "../w", Path("good.npy")}).code, 1);
  Client client = Connect();
  int storages = 0;
  ASSERT_TRUE(client.inspector().List({}, [&](const StorageRecord&) { ++storages; }).ok());
  EXPECT_EQ(storages, 0);
}

TEST_F(TensorctlFilesTest, PutOverALiveNameNeedsReplaceAndATtlEnds) {
  Client client = Connect();
  const Tensor live = *client.Zeros({3});
  ASSERT_TRUE(live.Publish("w").ok());
  const std::string file = (fs::path(TENSORBROKER_EXAMPLE_DATA) / "digits_labels.npy").string();
  EXPECT_THAT(Run({"put", "w", file}).err, StartsWith("tensorctl: put: ALREADY_EXISTS: "));
  EXPECT_EQ(Run({"put", "w", file, "--replace"}).code, 0);
  EXPECT_EQ(client.Open("w")->numel(), 1797);
  EXPECT_EQ(Run({"put", "short", file, "--ttl", "1ms"}).code, 0);
  EXPECT_TRUE(testing::Eventually(std::chrono::seconds(30),
                                  [&] { return !client.Open("short", {.map = false}).ok(); }));
  EXPECT_EQ(Run({"put", "again", file}).code, 0);
  EXPECT_EQ(Run({"put", "again", file}).code, 0) << "a name whose publisher has ended may be replaced";
}

}  // namespace
}  // namespace tensorbroker::cli
