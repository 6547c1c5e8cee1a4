// Handles under way: Tensor::Export and Client::Import.
#include <gmock/gmock.h>

#include "tests/client/connect.h"

namespace tensorbroker::testing {
namespace {

TB_CHILD(ExporterThatEnds) {
  const Client client = Must(Client::Connect({.socket = arguments[0], .label = "exporter"}));
  const Tensor tensor = Must(client.Arange(0, 100, 1));
  channel.Send(Must(Must(tensor.Narrow(0, 10, 5)).Export()));
  return 0;
}

// Case T1.
TEST(Transfer, AHandleOutlivesItsSenderAndIsConsumedByItsFirstImporter) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  ChildProcess sender = ChildProcess::Spawn("ExporterThatEnds", {broker->socket()});
  const std::string handle = sender.Receive().value_or("");
  EXPECT_EQ(sender.Wait(), 0);
  EXPECT_LT(handle.size(), 400u);
  EXPECT_TRUE(Eventually(5s, [&] { return Must(client.inspector().Sessions(false)).size() == 1; }));
  EXPECT_EQ(Storages(client), 1u);
  {
    const Tensor tensor = Must(client.Import(handle));
    EXPECT_EQ(tensor.data<float>()[4], 14.0f);
    EXPECT_TRUE(tensor.writable());
    const Tensor again = Must(client.Import(handle));
    EXPECT_EQ(again.data_ptr(), tensor.data_ptr());
  }
  Must(client.Flush());
  EXPECT_EQ(Storages(client), 0u);
  EXPECT_EQ(client.Import(handle).status().code(), StatusCode::kNotFound);
}

TEST(Transfer, AHandleCarriesItsSendersAccess) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Tensor tensor = Must(client.Ones({4}));
  Must(tensor.Publish("x"));
  const std::string handle = Must(Must(client.Open("x")).Export());
  EXPECT_FALSE(Must(client.Import(handle)).writable());
}

TEST(Transfer, HostileBytesAreInvalidArguments) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  for (const std::string& bytes :
       {std::string(), std::string("TBH1"), std::string(300, '\0'), std::string(5000, 'T')}) {
    EXPECT_EQ(client.Import(bytes).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(Transfer, AHandleOfAnotherBrokerIsNotFound) {
  const auto broker = StartBroker();
  const auto other = StartBroker();
  const Tensor tensor = Must(ConnectTo(*broker).Ones({4}));
  const std::string handle = Must(tensor.Export());
  EXPECT_EQ(ConnectTo(*other).Import(handle).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tensorbroker::testing
