#include "train/initial_values.h"

#include <cstring>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "disk/checkpoint_reader.h"

namespace paceline::train {

namespace {

enum class Need { kAll, kWhatIsThere };

Status Take(const disk::LoadedFile& file, FlatTensors& tensors, Need need,
            std::set<std::string>& left) {
  for (const NamedRange& range : tensors.ranges()) {
    const auto found = std::ranges::find(file.header.tensors, range.name, &wire::TensorInfo::name);
    if (found == file.header.tensors.end()) {
      if (need == Need::kWhatIsThere) continue;
      return Status::Error(Code::kBadData,
                           fmt::format("{} has no tensor {}", file.name, range.name));
    }
    const disk::TensorView view = file.View(*found);
    if (view.dtype != wire::DType::kF32 || view.shape != range.shape) {
      return Status::Error(Code::kBadData,
                           fmt::format("{}: {} is {} [{}], this model needs F32 [{}]", file.name,
                                       range.name, wire::DTypeName(view.dtype),
                                       fmt::join(view.shape, ","), fmt::join(range.shape, ",")));
    }
    std::memcpy(tensors.Of(range).data(), view.bytes.data(), view.bytes.size());
    left.erase(range.name);
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> TakeInitialValues(disk::FileSystem& fs, const std::string& path,
                                                   Trainer& trainer) {
  PACELINE_ASSIGN(const disk::LoadedFile file, disk::LoadTensors(fs, path));
  std::set<std::string> left;
  for (const wire::TensorInfo& tensor : file.header.tensors) left.insert(tensor.name);
  PACELINE_TRY(Take(file, trainer.params(), Need::kAll, left));
  PACELINE_TRY(Take(file, trainer.buffers(), Need::kWhatIsThere, left));
  return std::vector<std::string>(left.begin(), left.end());
}

}  // namespace paceline::train
