// SPDX-License-Identifier: Apache-2.0
#include "tests/support/foreign_files.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/support/files.h"

namespace mirrorflow {
namespace {

std::string Little(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value);
  return text;
}

// Returns a zip archive with one stored member. The central directory suffices to recognise it.
std::string Zip(const std::string& name, const std::string& contents) {
  const std::string fields = Little(0, 4) + Little(0, 4) + Little(0, 4) +
                             Little(contents.size(), 4) + Little(contents.size(), 4) +
                             Little(name.size(), 2) + Little(0, 2);
  const std::string local = "PK\x03\x04" + Little(20, 2) + fields.substr(2) + name + contents;
  const std::string central = "PK\x01\x02" + Little(20, 2) + Little(20, 2) + fields.substr(2) +
                              Little(0, 2 + 2 + 2 + 4) + Little(0, 4) + name;
  return local + central + "PK\x05\x06" + Little(0, 4) + Little(1, 2) + Little(1, 2) +
         Little(central.size(), 4) + Little(local.size(), 4) + Little(0, 2);
}

std::string Hex(const char* text) { return absl::HexStringToBytes(text); }

// Returns a field of a protobuf message.
std::string Field(int tag, const std::string& contents) {
  return std::string(1, static_cast<char>(tag)) + static_cast<char>(contents.size()) + contents;
}

std::string Rest() {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += static_cast<char>(i * 37);
  return bytes;
}

}  // namespace

std::vector<ForeignFile> ForeignFiles() {
  const std::string meta =
      Field(0x0a, Field(0x12, Field(0x0a, Field(0x0a, "Add"))) + Field(0x2a, "2.16.1"));
  const std::string node = Field(0x0a, Field(0x0a, "x") + Field(0x12, "NoOp"));
  const std::string safetensors = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string npy = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n";
  // The record "abc", with the checksums that TensorBoard writes.
  const std::string record = Hex("0300000000000000b099490e6162636e57f121");
  std::string tar(512, '\0');
  tar.replace(0, 5, "a.txt");
  tar.replace(257, 5, "ustar");
  using K = FileKind;
  return {
      {K::kEmpty, "empty", "empty", ""},
      {K::kGraphDef, "graph.pb", "GraphDef", node},
      {K::kGraphDefText, "graph.pbtxt", "GraphDef", "node {\n  name: \"x\"\n  op: \"NoOp\"\n}\n"},
      {K::kGraphTextForm, "graph.txt", "text form", "# mirrorflow graph, nodes: 1\nx = NoOp()\n"},
      {K::kSafetensors, "w.safetensors", "safetensors",
       Little(safetensors.size(), 8) + safetensors + Little(0, 4)},
      {K::kNpy, "x.npy", "npy",
       "\x93NUMPY\x01" + Little(0, 1) + Little(npy.size(), 2) + npy + Little(0, 4)},
      {K::kNpz, "x.npz", "npz", Zip("x.npy", "\x93NUMPY")},
      {K::kTfRecord, "x.tfrecord", "TFRecord", record},
      {K::kIdx, "x-idx1-ubyte", "IDX", Bytes({0, 0, 8, 1, 0, 0, 0, 2, 7, 8})},
      {K::kPng, "x.png", "PNG", "\x89PNG\r\n\x1a\n" + Rest()},
      {K::kJpeg, "x.jpg", "JPEG", "\xff\xd8\xff\xe0" + Rest()},
      {K::kSavedModel, "saved_model.pb", "SavedModel", Little(0x0108, 2) + Field(0x12, meta)},
      {K::kMetaGraph, "model.ckpt.meta", "MetaGraphDef", meta},
      {K::kTensorFlowCheckpoint, "model.ckpt.index", "TensorFlow checkpoint",
       Rest() + Hex("57fb808b247547db")},
      {K::kTensorFlowCheckpoint, "checkpoint", "TensorFlow checkpoint",
       "model_checkpoint_path: \"model.ckpt\"\n"},
      {K::kTensorFlowCheckpoint, "model.data-00000-of-00001", "TensorFlow checkpoint", Rest()},
      {K::kKeras, "model.keras", ".keras", Zip("model.weights.h5", Rest())},
      {K::kHdf5, "model.h5", "HDF5", "\x89HDF\r\n\x1a\n" + Rest()},
      {K::kOnnx, "model.onnx", "ONNX", Little(0x0808, 2) + Field(0x12, "pytorch") + Rest()},
      {K::kTfLite, "model.tflite", "TFLite", Little(0x1c, 4) + "TFL3" + Rest()},
      {K::kPyTorch, "model.pt", "PyTorch", Zip("archive/data.pkl", "\x80\x02}q.")},
      {K::kPyTorch, "old.pth", "PyTorch", Hex("80028a0a6cfc9c46f9206aa850192e") + Rest()},
      {K::kPickle, "x.pkl", "pickle", "\x80\x04\x95" + Little(5, 8) + "}\x94."},
      {K::kGguf, "model.gguf", "GGUF", "GGUF" + Little(3, 4) + Rest()},
      {K::kParquet, "x.parquet", "Parquet", "PAR1\x15\x04" + Rest() + "PAR1"},
      {K::kArrow, "x.feather", "Arrow", "ARROW1" + Little(0, 2) + Rest()},
      {K::kMatlab, "x.mat", "MATLAB", "MATLAB 5.0 MAT-file, Platform: GLNXA64" + Rest()},
      {K::kSqlite, "x.db", "SQLite", "SQLite format 3" + Rest()},
      {K::kGif, "x.gif", "GIF", "GIF89a" + Rest()},
      {K::kBmp, "x.bmp", "BMP", "BM" + Little(206, 4) + Rest()},
      {K::kTiff, "x.tif", "TIFF", "II*" + Little(0, 1) + Rest()},
      {K::kWebp, "x.webp", "WebP", "RIFF" + Little(208, 4) + "WEBP" + Rest()},
      {K::kHeif, "x.heic", "HEIF", Little(0x18000000, 4) + "ftypheic" + Rest()},
      {K::kGitLfsPointer, "pointer", "git LFS pointer",
       "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"},
      {K::kHtml, "page", "HTML", "<!DOCTYPE html>\n<html><body>404, not found</body></html>\n"},
      {K::kXml, "x.xml", "XML", "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code></Error>\n"},
      {K::kJson, "x.json", "JSON", "{\"a\": [1, 2], \"b\": \"text\"}\n"},
      {K::kJson, "list.json", "JSON", "[1, 2, 3]\n"},
      {K::kPdf, "x.pdf", "PDF", "%PDF-1.7\n" + Rest()},
      {K::kGzip, "x.gz", "gzip", Gzip(Rest())},
      {K::kZip, "x.zip", "zip", Zip("readme.txt", "text")},
      {K::kTar, "x.tar", "tar", tar},
      {K::kOtherArchive, "x.xz", "compressed", Hex("fd377a585a000004") + Rest()},
      {K::kOtherArchive, "x.zst", "compressed", Hex("28b52ffd") + Rest()},
      {K::kExecutable, "program", "executable", Hex("7f454c4602010100") + Rest()},
      {K::kCudaBinary, "kernel.fatbin", "CUDA", Hex("50ed55ba01001000") + Rest()},
  };
}

}  // namespace mirrorflow
