// SPDX-License-Identifier: Apache-2.0
#include "tests/support/literals.h"

#include "framework/core/status.h"
#include "framework/graph/literal_parser.h"

namespace mirrorflow {
namespace {

absl::Status ExpectEnd(LiteralParser& parser) {
  return parser.AtEnd() ? absl::OkStatus() : parser.Expected("the end");
}

}  // namespace

absl::StatusOr<AttrValue> ParseAttrValue(absl::string_view text) {
  LiteralParser parser(text);
  MF_ASSIGN_OR_RETURN(AttrValue value, parser.Value());
  MF_RETURN_IF_ERROR(ExpectEnd(parser));
  return value;
}

absl::StatusOr<AttrMap> ParseAttrMap(absl::string_view text) {
  LiteralParser parser(text);
  if (parser.AtEnd()) return AttrMap();
  MF_ASSIGN_OR_RETURN(AttrMap attrs, parser.Attrs());
  MF_RETURN_IF_ERROR(ExpectEnd(parser));
  return attrs;
}

absl::StatusOr<Tensor> ParseTensorLiteral(absl::string_view text) {
  LiteralParser parser(text);
  MF_ASSIGN_OR_RETURN(Tensor tensor, parser.TensorLiteral());
  MF_RETURN_IF_ERROR(ExpectEnd(parser));
  return tensor;
}

}  // namespace mirrorflow
