// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/graph_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/wire_format_lite.h>

#include <limits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/file.h"
#include "framework/core/file_kind.h"
#include "framework/core/status.h"
#include "framework/core/text.h"
#include "framework/graph/graph_assembler.h"
#include "framework/graph/graph_def.h"
#include "framework/graph/text_form.h"
#include "framework/proto/parsed_size.h"
#include "framework/proto/serialize.h"

namespace mirrorflow {
namespace {

using google::protobuf::TextFormat;
using google::protobuf::internal::WireFormatLite;

constexpr int kMaxDepth = 100;  // protobuf's limit for binary messages
// Starts the first line of the text form. The node count after it reveals that a file was truncated
// at a line break.
constexpr absl::string_view kTextHead = "# mirrorflow graph, nodes: ";

enum class Format { kBinary, kProtoText, kTextForm };

constexpr FileKind kBinaryKinds[] = {FileKind::kGraphDef};
constexpr FileKind kProtoTextKinds[] = {FileKind::kGraphDefText, FileKind::kText};
constexpr FileKind kTextFormKinds[] = {FileKind::kGraphTextForm, FileKind::kText};
// By Format.
constexpr FileReader kReaders[] = {
    {"a binary GraphDef, as the name ends in neither .pbtxt nor .txt", FileReader::Use::kGraph,
     kBinaryKinds},
    {"a GraphDef as text", FileReader::Use::kGraph, kProtoTextKinds},
    {"a graph in Mirrorflow's text form, as the name ends in .txt", FileReader::Use::kGraph,
     kTextFormKinds},
};

Format FormatOf(absl::string_view path) {
  if (absl::EndsWith(path, ".pbtxt") || absl::EndsWith(path, ".pb.txt")) return Format::kProtoText;
  return absl::EndsWith(path, ".txt") ? Format::kTextForm : Format::kBinary;
}

// Returns the offset of the first field of a GraphDef that is truncated or cannot be parsed.
int BadOffset(const std::string& bytes) {
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  while (true) {
    const int begin = input.CurrentPosition();
    const uint32_t tag = input.ReadTag();
    if (tag == 0 || !WireFormatLite::SkipField(&input, tag)) return begin;
    const absl::string_view field =
        absl::string_view(bytes).substr(begin, input.CurrentPosition() - begin);
    if (!proto::GraphDef().ParseFromArray(field.data(), static_cast<int>(field.size()))) {
      return begin;
    }
  }
}

// Checks the size before parsing: a file of empty nodes can need a hundred times its size in
// memory.
absl::Status CheckSize(const ParsedSize& size, const GraphLimits& limits) {
  if (size.bytes() <= limits.max_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the graph is too large in memory; expected at most ", limits.max_bytes,
                   " bytes, got ", size.bytes()));
}

absl::StatusOr<proto::GraphDef> ParseBinary(const std::string& bytes, const GraphLimits& limits) {
  ParsedSize size;
  size.AddBinary(*proto::GraphDef::descriptor(), bytes);
  MF_RETURN_IF_ERROR(CheckSize(size, limits));
  proto::GraphDef def;
  if (def.ParseFromString(bytes)) return def;
  return absl::InvalidArgumentError(absl::StrCat(
      "not a GraphDef, or cut off: the field at byte ", BadOffset(bytes), " of ", bytes.size(),
      " cannot be read; expected a binary GraphDef, because the "
      "name is neither *.pbtxt nor *.txt"));
}

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) {
      text = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
    }
  }
  std::string text;
};

absl::StatusOr<proto::GraphDef> ParseProtoText(const std::string& text, const GraphLimits& limits) {
  ParsedSize size;
  size.AddText(*proto::GraphDef::descriptor(), text);
  MF_RETURN_IF_ERROR(CheckSize(size, limits));
  FirstError error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(kMaxDepth);
  proto::GraphDef def;
  if (parser.ParseFromString(text, &def)) return def;
  return absl::InvalidArgumentError(error.text);
}

absl::StatusOr<Graph> GraphFromDef(const absl::StatusOr<proto::GraphDef>& def,
                                   const OpRegistry& registry, const GraphLimits& limits) {
  MF_RETURN_IF_ERROR(def.status());
  // Old programs write no versions, which TensorFlow treats as version 0.
  if (!def->has_versions() && def->node_size() == 0) {
    return absl::InvalidArgumentError("the graph is empty; the file may be cut off");
  }
  return FromGraphDef(*def, registry, limits);
}

// Checks the size of the serialized messages in a text form: functions, and attributes without a
// native type, which are parsed later.
absl::Status CheckMessages(const Graph& graph, const GraphLimits& limits) {
  ParsedSize size;
  for (const auto& [name, bytes] : graph.functions().functions()) {
    size.AddBinary(*proto::FunctionDef::descriptor(), bytes);
  }
  size.AddBinary(*proto::FunctionDefLibrary::descriptor(), graph.functions().gradients());
  for (const Node* node : graph.Nodes()) {
    for (const auto& [name, value] : node->attrs()) {
      const std::string* const bytes = value.get_if<std::string>();
      if (bytes == nullptr || !absl::StartsWith(name, kOpaqueAttr)) continue;
      size.AddBinary(*proto::AttrValue::descriptor(), *bytes);
    }
  }
  return CheckSize(size, limits);
}

absl::StatusOr<Graph> GraphFromText(absl::string_view text, const OpRegistry& registry,
                                    const GraphLimits& limits) {
  MF_ASSIGN_OR_RETURN(Graph graph, ParseGraph(text, registry, limits));
  MF_RETURN_IF_ERROR(CheckMessages(graph, limits));
  absl::string_view head = text.substr(0, text.find('\n'));
  int nodes;
  const bool has_head = absl::ConsumePrefix(&head, kTextHead) && absl::SimpleAtoi(head, &nodes);
  if (has_head && (nodes != graph.num_nodes() || !absl::EndsWith(text, "\n"))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file may be cut off; expected ", nodes,
                     " nodes, as its first line specifies, and a final newline, got ",
                     graph.num_nodes(), " nodes"));
  }
  // A handwritten text has no such line, so only an empty graph can be detected.
  if (!has_head && graph.num_nodes() == 0) {
    return absl::InvalidArgumentError("the graph is empty; the file may be cut off");
  }
  return graph;
}

absl::StatusOr<Graph> ParseBytes(const std::string& bytes, Format format,
                                 const OpRegistry& registry, const GraphLimits& limits) {
  const google::protobuf::LogSilencer silencer;  // the status reports errors
  if (format == Format::kBinary) return GraphFromDef(ParseBinary(bytes, limits), registry, limits);
  const absl::StatusOr<std::string> text = PlainText(bytes);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  if (format == Format::kProtoText)
    return GraphFromDef(ParseProtoText(*text, limits), registry, limits);
  return GraphFromText(*text, registry, limits);
}

absl::StatusOr<Graph> ReadGraph(absl::string_view path, const OpRegistry& registry,
                                const GraphLimits& limits) {
  MF_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() == 0 || file.size() > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a graph of 1 byte to 2 GiB, got ", file.size(), " bytes"));
  }
  if (file.size() > static_cast<uint64_t>(limits.max_bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": the file is too large; expected at most ", limits.max_bytes,
                     " bytes, got ", file.size()));
  }
  std::string bytes(file.size(), '\0');
  MF_RETURN_IF_ERROR(file.Read(0, bytes.size(), bytes.data()));
  return Annotate(ParseBytes(bytes, FormatOf(path), registry, limits), path);
}

absl::StatusOr<std::string> Contents(const Graph& graph, Format format) {
  if (format == Format::kTextForm) {
    MF_RETURN_IF_ERROR(graph.status());
    return absl::StrCat(kTextHead, graph.num_nodes(), "\n",
                        GraphToText(graph, {.comment = nullptr}));
  }
  MF_ASSIGN_OR_RETURN(const proto::GraphDef def, ToGraphDef(graph));
  if (format == Format::kBinary) return SerializeDeterministically(def);
  std::string text;
  if (!TextFormat::PrintToString(def, &text)) return absl::InternalError("cannot print a GraphDef");
  return text;
}

}  // namespace

absl::StatusOr<Graph> ReadGraphFile(absl::string_view path, const OpRegistry& registry,
                                    const GraphLimits& limits) {
  return ExplainFile(ReadGraph(path, registry, limits), path,
                     kReaders[static_cast<int>(FormatOf(path))]);
}

absl::Status WriteGraphFile(const Graph& graph, absl::string_view path) {
  MF_ASSIGN_OR_RETURN(const std::string contents, Annotate(Contents(graph, FormatOf(path)), path));
  return WriteFileAtomically(path, {contents});
}

}  // namespace mirrorflow
