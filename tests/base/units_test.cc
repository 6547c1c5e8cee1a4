#include "tensorbroker/base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace tensorbroker {
namespace {

using namespace std::chrono_literals;

TEST(Units, BytesAreWrittenForPeople) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(4096), "4.0 KiB");
  EXPECT_EQ(HumanBytes(1048575), "1.0 MiB");
  EXPECT_EQ(HumanBytes(150ll << 20), "150 MiB");
  EXPECT_EQ(HumanBytes(std::numeric_limits<int64_t>::max()), "8.0 EiB");
}

TEST(Units, SharesAreWholePercents) {
  EXPECT_EQ(HumanPercent(1, 3), "33 %");
  EXPECT_EQ(HumanPercent(5, 0), "0 %");
}

TEST(Units, BytesReadBack) {
  EXPECT_EQ(*ParseBytes("0"), 0);
  EXPECT_EQ(*ParseBytes("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(*ParseBytes("64KiB"), 65536);
  EXPECT_EQ(*ParseBytes("64k"), 65536);
  EXPECT_EQ(*ParseBytes("1.5 GiB"), 1610612736);
  EXPECT_EQ(*ParseBytes("2GB"), 2000000000);
  for (const char* bad :
       {"", "x", "-1", "1 XB", "1e400", "nan", "9223372036854775808", "99999999999 TiB", "0x10 q"}) {
    EXPECT_EQ(ParseBytes(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(Units, DurationsReadBack) {
  EXPECT_EQ(*ParseDuration("250ms"), 250ms);
  EXPECT_EQ(*ParseDuration("5"), 5s);
  EXPECT_EQ(*ParseDuration("1.5 s"), 1500ms);
  EXPECT_EQ(*ParseDuration("10min"), 10min);
  EXPECT_EQ(*ParseDuration("forever"), kForever);
  for (const char* bad : {"", "soon", "-1s", "5 weeks", "1e30s"}) {
    EXPECT_EQ(ParseDuration(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(HumanDuration(1500us), "1.5 ms");
  EXPECT_EQ(HumanDuration(10min), "10 min");
}

TEST(Clocks, DeadlinesDoNotOverflow) {
  const TimePoint now = Clock::Real().Now();
  EXPECT_EQ(DeadlineAfter(now, kForever), TimePoint::max());
  EXPECT_EQ(DeadlineAfter(now, 5s), now + 5s);
}

}  // namespace
}  // namespace tensorbroker
