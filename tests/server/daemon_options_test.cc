#include "tensorbroker/server/daemon_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "tensorbroker/server/config_file.h"

namespace tensorbroker {
namespace {

using ::testing::HasSubstr;

// What a line's value is, or its error's text.
std::string ValueOf(const std::string& value) {
  std::istringstream text("key =" + value + "\n");
  const auto entries = ParseConfig(text);
  if (!entries.ok()) return "error: " + std::string(Message(entries.status()));
  return entries->size() == 1 && entries->front().key == "key" ? entries->front().value : "not one entry";
}

TEST(ConfigFile, AValueIsTheLinesRestOrWhatIsQuoted) {
  EXPECT_EQ(ValueOf("8GiB"), "8GiB");
  EXPECT_EQ(ValueOf("  8GiB \t\r"), "8GiB");
  EXPECT_EQ(ValueOf(" \"8GiB\""), "8GiB");
  EXPECT_EQ(ValueOf(" '8GiB'"), "8GiB");
  EXPECT_EQ(ValueOf(" /run/a b.sock"), "/run/a b.sock");
  EXPECT_EQ(ValueOf(" \" /run/a b \""), " /run/a b ");
  EXPECT_EQ(ValueOf(" a=b,[c],{d}"), "a=b,[c],{d}");
  EXPECT_EQ(ValueOf(" \"it's\""), "it's");
  EXPECT_EQ(ValueOf(" 'a\"b'"), "a\"b");
  EXPECT_EQ(ValueOf(" \"a\\tb\""), "a\\tb") << "no escapes";
}

TEST(ConfigFile, AHashAfterASpaceBeginsACommentButNotInQuotes) {
  EXPECT_EQ(ValueOf(" 8GiB # much"), "8GiB");
  EXPECT_EQ(ValueOf(" \"8GiB\" # much"), "8GiB");
  EXPECT_EQ(ValueOf(" a#b"), "a#b");
  EXPECT_EQ(ValueOf(" \"/run/a b # c.sock\""), "/run/a b # c.sock");
  EXPECT_EQ(ValueOf(" # nothing"), "");
}

TEST(ConfigFile, AValueMayBeEmpty) {
  EXPECT_EQ(ValueOf(""), "");
  EXPECT_EQ(ValueOf("  "), "");
  EXPECT_EQ(ValueOf(" \"\""), "");
}

TEST(ConfigFile, WhatItCannotReadItRefusesByLine) {
  EXPECT_THAT(ValueOf(" \"8GiB"), HasSubstr("line 1: the quote does not end"));
  EXPECT_THAT(ValueOf(" \"a\"b"), HasSubstr("line 1: there is more after the quote"));
  for (const char* text : {"capacity", "[daemon]", "= 3"}) {
    std::istringstream bad("# first\n\n" + std::string(text));
    const auto entries = ParseConfig(bad);
    EXPECT_EQ(entries.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(Message(entries.status())), HasSubstr("line 3: ")) << text;
  }
  std::istringstream twice("a = 1\nb = 2\na = 1\n");
  EXPECT_THAT(std::string(Message(ParseConfig(twice).status())),
              HasSubstr("line 3: \"a\" is set a second time"));
}

class DaemonOptionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    unsetenv("TENSORBROKER_SOCKET");
    std::string pattern = (std::filesystem::temp_directory_path() / "tb-options-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  ~DaemonOptionsTest() override { std::filesystem::remove_all(directory_); }

  std::optional<DaemonOptions> Parse(std::vector<std::string> words) {
    words.insert(words.begin(), "tensorbrokerd");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::testing::internal::CaptureStderr();
    auto options = ParseDaemonOptions(static_cast<int>(words.size()), argv.data(), &exit_code_);
    error_ = ::testing::internal::GetCapturedStderr();
    return options;
  }
  std::string Config(const std::string& text) {
    const std::string path = directory_ / "tensorbrokerd.conf";
    std::ofstream(path) << text;
    return path;
  }

  std::filesystem::path directory_;
  int exit_code_ = -1;
  std::string error_;
};

TEST_F(DaemonOptionsTest, AFileTakesTheKeysOfTheCommandLineWithAndWithoutQuotes) {
  for (const char* text :
       {"capacity = 8GiB\nsocket-mode = 0660\nsocket = /run/a b.sock\nmemory = memfd\n",
        "capacity = \"8GiB\"\nsocket-mode='0660'\nsocket=\"/run/a b.sock\" # here\nmemory= \"memfd\""}) {
    const auto options = Parse({"--config", Config(text)});
    ASSERT_TRUE(options.has_value()) << text << error_;
    EXPECT_EQ(options->capacity_bytes, int64_t{8} << 30);
    EXPECT_EQ(options->socket_mode, mode_t{0660});
    EXPECT_EQ(options->socket, "/run/a b.sock");
    EXPECT_EQ(options->memory, SourceKind::kMemfd);
  }
  EXPECT_EQ(Parse({"--config", Config("socket = \"/run/a # b.sock\"\n")})->socket, "/run/a # b.sock");
  EXPECT_EQ(Parse({"--config", Config("socket =\n")})->socket, "");
  EXPECT_EQ(Parse({"--config", Config("socket = /a\n"), "--socket", "/b"})->socket, "/b");
}

TEST_F(DaemonOptionsTest, AMistakeInAFileIsWrongUsage) {
  for (const auto& [text, why] :
       std::vector<std::pair<std::string, std::string>>{{"capacty = 8GiB\n", "capacty"},
                                                        {"capacity\n", "line 1"},
                                                        {"capacity = much\n", "capacity"},
                                                        {"capacity =\n", "capacity"},
                                                        {"socket = /a\nsocket = /b\n", "line 2"}}) {
    EXPECT_FALSE(Parse({"--config", Config(text)}).has_value()) << text;
    EXPECT_EQ(exit_code_, 2) << text;
    EXPECT_THAT(error_, HasSubstr(why));
  }
  EXPECT_FALSE(Parse({"--config", (directory_ / "none").string()}).has_value());
  EXPECT_EQ(exit_code_, 2);
  EXPECT_THAT(error_, HasSubstr("none"));
}

}  // namespace
}  // namespace tensorbroker
