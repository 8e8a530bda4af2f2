// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "framework/core/file_kind.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kTakeOut =
    "docs/tensorflow_graphs.md shows how to extract its graph and variables";
constexpr absl::string_view kSaveKeras =
    "load it with keras.models.load_model and write its graph and variables as "
    "docs/tensorflow_graphs.md shows";
constexpr absl::string_view kSaveTorch =
    "safetensors.torch.save_file(torch.load(FILE, weights_only=True), NEW) converts it";
constexpr absl::string_view kExportTorch =
    "torch.onnx.export writes ONNX, and `onnx2tf -i FILE -o DIR` converts that to a SavedModel";
constexpr absl::string_view kOnnxToTf = "`onnx2tf -i FILE -o DIR` converts it to a SavedModel";
constexpr absl::string_view kNpzToSafetensors =
    "safetensors.numpy.save_file(dict(numpy.load(FILE)), NEW) converts it";
constexpr absl::string_view kNoGraph =
    "it contains no graph; pass it to mirrorflow run as --variables";
constexpr absl::string_view kNoVariables =
    "it contains no variables; pass it to mirrorflow run as --graph";
constexpr absl::string_view kFetchLfs = "`git lfs pull` downloads the actual file";
constexpr absl::string_view kFailedDownload = "the download may have failed";
constexpr absl::string_view kUnpack = "unpack it first";
constexpr absl::string_view kToPng = "convert it to PNG or JPEG";

// An empty string or a missing one means that there is no advice for that use.
constexpr FileKindRow kRows[] = {
    {FileKind::kUnknown, "an unknown kind of file"},
    {FileKind::kEmpty, "an empty file"},
    {FileKind::kText, "text"},
    {FileKind::kGraphDef, "a binary GraphDef",
     "rename it so that its name does not end in .txt or .pbtxt", kNoVariables, ""},
    {FileKind::kGraphDefText, "a GraphDef as text", "rename it so that its name ends in .pbtxt",
     kNoVariables, ""},
    {FileKind::kGraphTextForm, "a graph in Mirrorflow's text form",
     "rename it so that its name ends in .txt", kNoVariables, ""},
    {FileKind::kSafetensors, "a safetensors file", kNoGraph, "", ""},
    {FileKind::kNpy, "an npy file", "pass it to mirrorflow run as --feed", "", ""},
    {FileKind::kNpz, "an npz file", "", kNpzToSafetensors, "Dataset::FromNpz reads it"},
    {FileKind::kTfRecord, "a TFRecord file", "", "", "Dataset::FromTFRecords reads it"},
    {FileKind::kIdx, "an IDX file"},
    {FileKind::kPng, "a PNG image"},
    {FileKind::kJpeg, "a JPEG image"},
    {FileKind::kCheckpointFolder, "a folder of Mirrorflow checkpoints", "",
     "pass the variables.safetensors in one of its step-… folders", ""},
    {FileKind::kSavedModelFolder, "a SavedModel folder", kTakeOut, kTakeOut, ""},
    {FileKind::kSavedModel, "a SavedModel", kTakeOut, kTakeOut, ""},
    {FileKind::kMetaGraph, "a MetaGraphDef", "extract its graph_def field, which is a GraphDef",
     kTakeOut, ""},
    {FileKind::kTensorFlowCheckpoint, "a TensorFlow checkpoint", kTakeOut,
     "tf.train.load_checkpoint reads it and safetensors.numpy.save_file writes its tensors", ""},
    {FileKind::kKeras, "a .keras file", kSaveKeras, kSaveKeras, ""},
    {FileKind::kHdf5, "an HDF5 file", kSaveKeras, kSaveKeras,
     "h5py reads it and numpy.save writes its arrays"},
    {FileKind::kOnnx, "an ONNX model", kOnnxToTf, kOnnxToTf, ""},
    {FileKind::kTfLite, "a TFLite model",
     "write a GraphDef of the model that it was converted from",
     "write the variables of the model that it was converted from", ""},
    {FileKind::kPyTorch, "a PyTorch file", kExportTorch, kSaveTorch,
     "torch.load reads it and numpy.save writes its arrays"},
    {FileKind::kPickle, "a Python pickle", "", "",
     "load it in Python and write its arrays with numpy.save"},
    {FileKind::kGguf, "a GGUF file"},
    {FileKind::kParquet, "a Parquet file", "", "", "pandas.read_parquet(FILE).to_csv converts it"},
    {FileKind::kArrow, "an Arrow file", "", "", "pandas.read_feather(FILE).to_csv converts it"},
    {FileKind::kMatlab, "a MATLAB file", "", "",
     "scipy.io.loadmat reads it and numpy.save writes its arrays"},
    {FileKind::kSqlite, "an SQLite database", "", "", "`sqlite3 -csv -header` writes its tables"},
    {FileKind::kGif, "a GIF image", "", "", kToPng},
    {FileKind::kBmp, "a BMP image", "", "", kToPng},
    {FileKind::kTiff, "a TIFF image", "", "", kToPng},
    {FileKind::kWebp, "a WebP image", "", "", kToPng},
    {FileKind::kHeif, "a HEIF or AVIF image", "", "", kToPng},
    {FileKind::kGitLfsPointer, "a git LFS pointer", kFetchLfs, kFetchLfs, kFetchLfs},
    {FileKind::kHtml, "an HTML page", kFailedDownload, kFailedDownload, kFailedDownload},
    {FileKind::kXml, "XML", kFailedDownload, kFailedDownload, kFailedDownload},
    {FileKind::kJson, "JSON"},
    {FileKind::kPdf, "a PDF document"},
    {FileKind::kGzip, "a gzip file", "`gunzip` unpacks it", "`gunzip` unpacks it",
     "`gunzip` unpacks it"},
    {FileKind::kZip, "a zip archive", kUnpack, kUnpack, kUnpack},
    {FileKind::kTar, "a tar archive", kUnpack, kUnpack, kUnpack},
    {FileKind::kOtherArchive, "a compressed file", kUnpack, kUnpack, kUnpack},
    {FileKind::kExecutable, "an executable or object file"},
    {FileKind::kCudaBinary, "a CUDA binary"},
};

}  // namespace

const FileKindRow& FileKindRowOf(FileKind kind) {
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [kind](const FileKindRow& r) { return r.kind == kind; });
  return row != std::end(kRows) ? *row : kRows[0];
}

}  // namespace mirrorflow
