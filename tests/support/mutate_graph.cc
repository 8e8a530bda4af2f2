// SPDX-License-Identifier: Apache-2.0
#include "tests/support/mutate_graph.h"

#include <iterator>
#include <set>

namespace mirrorflow {
namespace {

// Returns the names sorted, because the order of a protobuf map differs between processes.
std::set<std::string> AttrNames(const proto::NodeDef& node) {
  std::set<std::string> names;
  for (const auto& [name, value] : node.attr()) names.insert(name);
  return names;
}

}  // namespace

std::string GraphMutator::Bytes(std::string bytes) {
  for (size_t i = 0; i <= Below(4); ++i) {
    const size_t at = Below(bytes.size()), length = Below(40);
    switch (Below(4)) {
      case 0:
        bytes[at] = static_cast<char>(random_());
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(Below(bytes.size()), length));
        break;
      case 3:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
        break;
    }
  }
  return bytes;
}

void GraphMutator::Message(proto::GraphDef& def) {
  for (size_t i = 0; i <= Below(3); ++i) {
    auto& nodes = Below(3) == 0 && def.library().function_size() > 0
                      ? *def.mutable_library()
                             ->mutable_function(Below(def.library().function_size()))
                             ->mutable_node_def()
                      : *def.mutable_node();
    if (nodes.empty()) continue;
    proto::NodeDef& node = nodes[static_cast<int>(Below(nodes.size()))];
    const proto::NodeDef& other = nodes[static_cast<int>(Below(nodes.size()))];
    switch (Below(6)) {
      case 0:
        node.set_op(other.op());
        break;
      case 1:
        *node.mutable_input() = other.input();
        break;
      case 2:
        if (node.input_size() > 0) {
          node.set_input(static_cast<int>(Below(node.input_size())), other.name());
        }
        break;
      case 3:
        for (const std::string& name : AttrNames(node)) {
          const auto from = other.attr().find(name);
          if (from != other.attr().end()) {
            const proto::AttrValue value = from->second;
            (*node.mutable_attr())[name] = value;
          }
        }
        break;
      case 4:
        for (const std::string& name : AttrNames(node)) Number((*node.mutable_attr())[name]);
        break;
      case 5:
        nodes.DeleteSubrange(static_cast<int>(Below(nodes.size())), 1);
        break;
    }
  }
}

void GraphMutator::Number(proto::AttrValue& value) {
  const int64_t odd[] = {0, -1, 1, 2, 7, 1 << 20, int64_t{1} << 40, INT64_MAX, INT64_MIN};
  const int64_t number = odd[Below(std::size(odd))];
  if (value.value_case() == proto::AttrValue::kI) value.set_i(number);
  if (value.value_case() == proto::AttrValue::kB) value.set_b(!value.b());
  if (value.value_case() == proto::AttrValue::kType) {
    value.set_type(static_cast<proto::DataType>(Below(24)));
  }
  auto* shape = value.has_shape()    ? value.mutable_shape()
                : value.has_tensor() ? value.mutable_tensor()->mutable_tensor_shape()
                                     : nullptr;
  if (shape != nullptr && shape->dim_size() > 0) {
    shape->mutable_dim(static_cast<int>(Below(shape->dim_size())))->set_size(number);
  }
  if (value.list().i_size() > 0) {
    value.mutable_list()->set_i(static_cast<int>(Below(value.list().i_size())), number);
  }
}

}  // namespace mirrorflow
