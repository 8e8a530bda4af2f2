// SPDX-License-Identifier: Apache-2.0
#include "tests/support/literals.h"

#include "framework/core/status.h"
#include "framework/graph/literal_parser.h"

namespace mirrorflow {

absl::StatusOr<AttrValue> ParseAttrValue(absl::string_view text) {
  LiteralParser parser(text);
  MF_ASSIGN_OR_RETURN(AttrValue value, parser.Value());
  MF_RETURN_IF_ERROR(parser.ExpectEnd());
  return value;
}

absl::StatusOr<AttrMap> ParseAttrMap(absl::string_view text) {
  LiteralParser parser(text);
  if (parser.AtEnd()) return AttrMap();
  MF_ASSIGN_OR_RETURN(AttrMap attrs, parser.Attrs());
  MF_RETURN_IF_ERROR(parser.ExpectEnd());
  return attrs;
}

absl::StatusOr<Tensor> ParseTensorLiteral(absl::string_view text) {
  LiteralParser parser(text);
  MF_ASSIGN_OR_RETURN(Tensor tensor, parser.TensorLiteral());
  MF_RETURN_IF_ERROR(parser.ExpectEnd());
  return tensor;
}

}  // namespace mirrorflow
