// SPDX-License-Identifier: Apache-2.0
//
// LiteralParser: a cursor over text that reads values in the text form. Internal to the text
// parser.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_LITERAL_PARSER_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_LITERAL_PARSER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"
#include "framework/graph/attr_value.h"

namespace mirrorflow {

class LiteralParser {
 public:
  // `text` must outlive the parser. In errors, the text's first line has the number `line`.
  explicit LiteralParser(absl::string_view text, int line = 1) : text_(text), line_(line) {}

  // All methods below skip white space first. Their errors name what was expected.
  bool AtEnd();
  bool Consume(char c);
  bool NextIs(char c);
  absl::Status Expect(char c);
  // Reads a non-empty run of name characters (IsWordChar).
  absl::StatusOr<std::string> Word(absl::string_view what);
  // Reads `node`, `node:1` or `^node` without further checks.
  absl::StatusOr<std::string> Input();
  absl::StatusOr<std::string> QuotedString();
  absl::StatusOr<AttrValue> Value();
  absl::StatusOr<AttrMap> Attrs();  // in braces
  absl::StatusOr<Tensor> TensorLiteral();
  // Reads the name after `@`: a word, a quoted string, or nothing.
  absl::StatusOr<std::string> FunctionName();

  // Returns the error `line 3, column 14: expected <what>, got …` for the text at the cursor.
  absl::Status Expected(absl::string_view what);

 private:
  absl::Status ErrorAt(size_t position, absl::string_view what) const;
  absl::string_view Take(bool (*accept)(char));
  absl::string_view NumberToken();
  absl::StatusOr<AttrValue> Number();
  absl::StatusOr<AttrValue> WordValue();
  absl::StatusOr<AttrList> List();
  absl::StatusOr<FunctionRef> Function();
  absl::StatusOr<Shape> ShapeLiteral();
  absl::StatusOr<Tensor> Elements(DataType dtype, const Shape& shape);
  template <typename T>
  absl::StatusOr<Tensor> ElementsAs(DataType dtype, const Shape& shape);

  const absl::string_view text_;
  const int line_;
  size_t position_ = 0;
  int depth_ = 0;  // how many lists and functions enclose the cursor
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_LITERAL_PARSER_H_
