// Starts the installed broker, shares a tensor, and opens it by name.
#include <chrono>
#include <cstdio>

#include "tensorbroker/client/client.h"

using tensorbroker::DType;

int main() {
  auto client = tensorbroker::Client::Embedded();
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  auto batch = client->Arange(0, 6, 1, DType::kFloat32);
  if (!batch.ok() || !batch->Publish("consumer/batch").ok()) return 2;
  auto same = client->Open("consumer/batch", {.timeout = std::chrono::seconds(5)});
  if (!same.ok()) {
    std::fprintf(stderr, "%s\n", same.status().ToString().c_str());
    return 3;
  }
  auto matrix = same->View({2, 3});
  if (!matrix.ok()) return 4;
  auto column = matrix->Select(1, 2);
  if (!column.ok()) return 5;
  const float* at = column->data<const float>();
  std::printf("column %.0f %.0f of a tensor with %lld bytes\n", at[0], at[column->strides()[0]],
              static_cast<long long>(same->nbytes()));
  return 0;
}
