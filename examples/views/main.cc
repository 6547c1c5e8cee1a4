// Every header operation, with the strides and the data pointer that it gives: a table that moves no byte. Then the
// operations that strides cannot express, and what copies.
#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tensorbroker/client/client.h"
#include "tensorbroker/client/inspector.h"
#include "tensorbroker/tensor/scalar.h"
#include "tensorbroker/tensor/views.h"

namespace {

using namespace tensorbroker;  // NOLINT: a program, not a header

// Where `tensor` begins: bytes after the first of its Storage.
std::string DataPointer(const Tensor& tensor) {
  return fmt::format("base + {}",
                     static_cast<const std::byte*>(tensor.data_ptr()) - tensor.storage().bytes().data());
}

void PrintRow(std::string_view call, const Tensor& tensor) {
  fmt::print("{:<31} {:<9} {:<14} {:<15} {:<10} {}\n", call, Name(tensor.dtype()), ToString(tensor.shape()),
             ToString(tensor.strides()), DataPointer(tensor), tensor.is_contiguous() ? "yes" : "no");
}

class Table {
 public:
  // A row for a view that must be possible.
  void View(std::string_view call, const StatusOr<Tensor>& view) {
    if (!view.ok()) return Fail(call, view.status());
    PrintRow(call, *view);
  }
  // The reason why the call is no view.
  void Refused(std::string_view call, const StatusOr<Tensor>& view) {
    if (view.ok()) return Fail(call, InternalError("it was expected to be refused"));
    fmt::print("{}\n    {}: {}\n", call, CodeName(view.status().code()), Message(view.status()));
  }
  void Fail(std::string_view call, const Status& status) {
    fmt::print(stderr, "views: {}: {}: {}\n", call, CodeName(status.code()), Message(status));
    failed_ = true;
  }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

void PrintViews(Table& table, const Tensor& a, const Tensor& complex) {
  fmt::print("{:<31} {:<9} {:<14} {:<15} {:<10} {}\n", "operation", "dtype", "shape", "strides", "data_ptr",
             "contiguous");
  PrintRow("a", a);
  table.View("a.view(3, 8)", a.View(Dims{3, 8}));
  table.View("a.view(-1)", a.View(Dims{-1}));
  table.View("a.reshape(6, 4)", a.Reshape({6, 4}));
  table.View("a.flatten(1)", a.Flatten(1));
  table.View("a.view(uint8)", a.View(DType::kUInt8));
  table.View("a[0].t()", a.Select(0, 0)->T());
  table.View("a.transpose(0, 2)", a.Transpose(0, 2));
  table.View("a.swapaxes(0, 1)", a.SwapAxes(0, 1));
  table.View("a.permute(2, 0, 1)", a.Permute({2, 0, 1}));
  table.View("a.movedim(0, 2)", a.MoveDim(0, 2));
  table.View("a.narrow(1, 1, 2)", a.Narrow(1, 1, 2));
  table.View("a.select(0, 1)", a.Select(0, 1));
  table.View("a[:, :, 1:4:2]", a.Slice(2, 1, 4, 2));
  table.View("a.unsqueeze(0)", a.Unsqueeze(0));
  table.View("a[:1].squeeze()", a.Slice(0, 0, 1)->Squeeze());
  table.View("a[:1].squeeze(0)", a.Slice(0, 0, 1)->Squeeze(0));
  table.View("a[:, :, :1].expand(2, 3, 4)", a.Slice(2, 0, 1)->Expand({2, 3, 4}));
  table.View("a.as_strided((2, 2), (4, 1), 5)", a.AsStrided({2, 2}, {4, 1}, 5));
  table.View("a.unfold(2, 2, 1)", a.Unfold(2, 2, 1));
  table.View("a.flip(2)", a.Flip({2}));
  table.View("a[0].diagonal(1)", a.Select(0, 0)->Diagonal(1));
  table.View("a.detach()", a.Detach());
  table.View("c", complex);
  table.View("c.view_as_real()", complex.ViewAsReal());
  table.View("c.view_as_real() back", complex.ViewAsReal()->ViewAsComplex());
}

void PrintRefusals(Table& table, const Tensor& a) {
  fmt::print("\nWhat strides cannot express is refused, with the reason and the way out:\n");
  table.Refused("a.view(5, 5)", a.View(Dims{5, 5}));
  table.Refused("a.transpose(0, 2).view(24)", a.Transpose(0, 2)->View(Dims{24}));
  table.Refused("a.narrow(1, 2, 2)", a.Narrow(1, 2, 2));
  table.Refused("a[:, :, ::2].view(uint8)", a.Slice(2, 0, 4, 2)->View(DType::kUInt8));
  table.Refused("a.expand(2, 3, 8)", a.Expand({2, 3, 8}));
}

StatusOr<int64_t> CountStorages(const Client& client) {
  int64_t count = 0;
  TB_RETURN_IF_ERROR(client.inspector().List({}, [&](const StorageRecord&) { ++count; }));
  return count;
}

// How many Storages are there after t() and clone(), and which tensors share a data pointer?
Status PrintStorages(Client& client) {
  TB_ASSIGN_OR_RETURN(const Tensor a, client.Arange(0, 6, 1, DType::kFloat32)->View(Dims{2, 3}));
  TB_ASSIGN_OR_RETURN(const Tensor transposed, a.T());
  TB_ASSIGN_OR_RETURN(const int64_t before, CountStorages(client));
  TB_ASSIGN_OR_RETURN(const Tensor copy, transposed.Clone());
  TB_ASSIGN_OR_RETURN(const int64_t after, CountStorages(client));
  fmt::print("\nb = a.t() and c = b.clone(), for a of shape (2, 3):\n");
  fmt::print("    Storages after t(): {}; after clone(): {}\n", before, after);
  fmt::print("    b shares a's Storage: {}; its data_ptr: {}\n",
             transposed.storage().id() == a.storage().id(), transposed.data_ptr() == a.data_ptr());
  fmt::print("    c shares a's Storage: {}; its data_ptr: {}; bytes copied: {}\n",
             copy.storage().id() == a.storage().id(), copy.data_ptr() == a.data_ptr(), copy.nbytes());
  fmt::print("    strides: a {}, b {}, c {}\n", ToString(a.strides()), ToString(transposed.strides()),
             ToString(copy.strides()));

  // A write through a view is a write.
  a.Detach().data<float>()[1] = 10;
  fmt::print("    after a.detach()[0, 1] = 10: b[1, 0] is {}, c[1, 0] is {}\n",
             transposed.data<const float>()[1], copy.data<const float>()[2]);
  return OkStatus();
}

Status Run(Table& table) {
  TB_ASSIGN_OR_RETURN(Client client, Client::Embedded());
  {
    TB_ASSIGN_OR_RETURN(const Tensor a, client.Arange(0, 24, 1, DType::kFloat32)->View(Dims{2, 3, 4}));
    TB_ASSIGN_OR_RETURN(const Tensor complex, client.Zeros({2}, DType::kComplex64));
    PrintViews(table, a, complex);
    PrintRefusals(table, a);
  }
  TB_RETURN_IF_ERROR(client.Flush());
  return PrintStorages(client);
}

}  // namespace

int main() {
  Table table;
  if (const Status status = Run(table); !status.ok()) table.Fail("the program", status);
  return table.failed() ? 1 : 0;
}
