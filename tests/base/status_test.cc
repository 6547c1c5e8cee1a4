#include "tensorbroker/base/status.h"

#include <gtest/gtest.h>

namespace tensorbroker {
namespace {

TEST(Statuses, MessagesStayUnderTheLimitAndWholeCharacters) {
  std::string text;
  while (text.size() < 5000) text += "ö";
  const Status status = NotFoundError(text);
  EXPECT_LE(Message(status).size(), kMaxMessageBytes);
  EXPECT_EQ(Message(status).substr(Message(status).size() - 5), "ö...");
}

TEST(Statuses, AnnotationKeepsTheCode) {
  const Status status = Annotate(NotFoundError("no such name"), "open \"a\"");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(Message(status), "open \"a\": no such name");
  EXPECT_TRUE(Annotate(OkStatus(), "open").ok());
}

}  // namespace
}  // namespace tensorbroker
