#include "data/image_source.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "data/cifar10.h"
#include "data/image_batches.h"
#include "data/photo_batches.h"
#include "data/photos.h"
#include "data/synthetic.h"

namespace paceline::data {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSyntheticClasses = 10;  // where the model does not care

Normalization Choose(PixelRange range, const Normalization& normalized) {
  return range == PixelRange::kUnit ? kUnitRange : normalized;
}

// Names in a folder that `take` wants, sorted; none when there is no such folder.
std::vector<std::string> Pick(const fs::path& folder,
                              const std::function<bool(const fs::directory_entry&)>& take) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!name.starts_with('.') && take(*at)) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> Folders(const fs::path& folder) {
  return Pick(folder, [](const fs::directory_entry& entry) {
    std::error_code ignored;
    return entry.is_directory(ignored);
  });
}

// Tar files of one part of a data set: those in its folder, or those that have it in their name.
std::vector<std::string> TarFiles(const fs::path& root, const std::string& part) {
  const auto is_tar = [](const fs::directory_entry& entry) {
    return entry.path().extension() == ".tar";
  };
  std::vector<std::string> paths = Pick(root / part, is_tar);
  for (std::string& path : paths) path = part + "/" + path;
  if (!paths.empty()) return paths;
  return Pick(root, [&](const fs::directory_entry& entry) {
    return is_tar(entry) && entry.path().filename().string().find(part) != std::string::npos;
  });
}

struct Found {
  ImageLocation train, held_out;
};

Status Missing(const fs::path& folder, const std::string& what) {
  return Status::Error(Code::kBadData, fmt::format("{}: {}", folder.string(), what));
}

// Nothing when there are neither tar files nor folders of classes.
Result<std::optional<Found>> FindPhotos(const fs::path& root) {
  const auto shards = [&](const std::string& part) {
    return ImageLocation{.root = root, .tar = true, .paths = TarFiles(root, part)};
  };
  Found found{shards("train"), shards("val")};
  if (!found.train.paths.empty()) {
    if (found.held_out.paths.empty()) {
      return Missing(root, "tar files to train on, but none with 'val' in the name or in val/");
    }
    return std::optional(std::move(found));
  }
  const std::vector<std::string> classes = Folders(root / "train");
  if (classes.empty()) return std::optional<Found>();
  const std::vector<std::string> held_out = Folders(root / "val");
  if (held_out.empty()) {
    return Missing(root / "val", "no folder for each class, as train/ has them");
  }
  for (const std::string& name : held_out) {
    if (!std::ranges::binary_search(classes, name)) {
      return Missing(root / "val" / name, "a class that train/ does not have");
    }
  }
  found.train = {.root = root, .paths = {"train"}, .classes = classes};
  found.held_out = {.root = root, .paths = {"val"}, .classes = classes};
  return std::optional(std::move(found));
}

// A model can have classes that the data lack, never the other way round.
Status CheckClasses(const ImageRequest& request, std::int64_t classes, const std::string& where,
                    std::vector<std::string>& warnings) {
  if (request.classes == 0 || classes == request.classes) return {};
  const std::string both =
      fmt::format("{} has {} classes, the model {}", where, classes, request.classes);
  if (classes > request.classes) return Status::Error(Code::kInvalidArgument, both);
  warnings.push_back(both);
  return {};
}

Status CheckLabels(const ImageRequest& request, const Photos& photos) {
  const std::uint64_t highest = photos.WithHighestLabel();
  if (request.classes == 0 || photos.Label(highest) < request.classes) return {};
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("{} has label {}; the model has {} classes, from 0 on", photos.Describe(highest),
                  photos.Label(highest), request.classes));
}

Result<ImageSources> OpenPhotos(const ImageRequest& request, const Found& found,
                                const fs::path& cache) {
  if (request.shape.height != request.shape.width || request.shape.channels != 3) {
    return Status::Error(
        Code::kInvalidArgument,
        fmt::format("photographs become squares of three colours, not {}", request.shape.Text()));
  }
  ImageSources sources;
  if (!found.train.tar) {
    PACELINE_TRY(CheckClasses(request, static_cast<std::int64_t>(found.train.classes.size()),
                              (found.train.root / "train").string(), sources.warnings));
  }
  const auto open = [&](const ImageLocation& location,
                        const char* name) -> Result<std::unique_ptr<BatchSource>> {
    PACELINE_ASSIGN(std::shared_ptr<const Photos> photos,
                    Photos::Open(location, cache / name, request.policy));
    PACELINE_TRY(CheckLabels(request, *photos));
    const std::vector<std::string>& warnings = photos->warnings();
    sources.warnings.insert(sources.warnings.end(), warnings.begin(), warnings.end());
    return std::unique_ptr<BatchSource>(std::make_unique<PhotoBatches>(
        std::move(photos),
        PhotoBatchOptions{.size = request.shape.width,
                          .augment = request.augment,
                          .normalization = Choose(request.range, kPhotoNormalization),
                          .policy = request.policy}));
  };
  PACELINE_ASSIGN(sources.train, open(found.train, "train.index"));
  PACELINE_ASSIGN(sources.held_out, open(found.held_out, "val.index"));
  return sources;
}

bool HoldsCifar(const fs::path& folder) {
  std::error_code ignored;
  if (fs::is_directory(folder / "cifar-10-batches-bin", ignored)) return true;
  return !Pick(folder, [](const fs::directory_entry& entry) {
            const std::string name = entry.path().filename().string();
            return name.ends_with(".bin") &&
                   (name.starts_with("data_batch_") || name == "test_batch.bin");
          }).empty();
}

Result<ImageSources> OpenCifar10(const ImageRequest& request, const fs::path& folder) {
  ImageSources sources;
  if (request.shape != kCifarShape) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("{} holds CIFAR-10, images of {}; the model takes {}",
                                     folder.string(), kCifarShape.Text(), request.shape.Text()));
  }
  PACELINE_TRY(CheckClasses(request, kCifar10Classes, folder.string(), sources.warnings));
  const auto open = [&](Split split) -> Result<std::unique_ptr<BatchSource>> {
    PACELINE_ASSIGN(auto dataset, Cifar10::Open(folder, split, request.policy));
    const std::vector<std::string>& warnings = dataset->warnings();
    sources.warnings.insert(sources.warnings.end(), warnings.begin(), warnings.end());
    return std::unique_ptr<BatchSource>(std::make_unique<ImageBatches>(
        std::move(dataset),
        ImageBatchOptions{.augment = request.augment,
                          .normalization = Choose(request.range, kCifarNormalization)}));
  };
  PACELINE_ASSIGN(sources.train, open(Split::kTrain));
  PACELINE_ASSIGN(sources.held_out, open(Split::kTest));
  return sources;
}

}  // namespace

ImageSources MakeSyntheticImages(const ImageRequest& request, const SyntheticSizes& sizes) {
  const auto make = [&](std::uint64_t size, Split split) {
    return std::make_unique<ImageBatches>(
        std::make_shared<Synthetic>(SyntheticOptions{
            .seed = sizes.seed,
            .size = size,
            .split = split,
            .shape = request.shape,
            .classes = request.classes == 0 ? kSyntheticClasses : request.classes}),
        ImageBatchOptions{.augment = request.augment,
                          .normalization = Choose(request.range, kCifarNormalization)});
  };
  ImageSources sources;
  sources.train = make(sizes.train, Split::kTrain);
  sources.held_out = make(sizes.held_out, Split::kTest);
  return sources;
}

Result<ImageSources> OpenImages(const ImageRequest& request, const std::filesystem::path& folder,
                                std::filesystem::path cache) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return Missing(folder, "no such folder");
  if (HoldsCifar(folder)) return OpenCifar10(request, folder);
  PACELINE_ASSIGN(const std::optional<Found> found, FindPhotos(folder));
  if (!found) {
    return Missing(folder,
                   "no images that are known: neither CIFAR-10 (data_batch_1.bin), nor folders of "
                   "JPEG files (train/CLASS, val/CLASS), nor tar files (train/*.tar, val/*.tar)");
  }
  if (cache.empty()) cache = folder / ".paceline";
  return OpenPhotos(request, *found, cache);
}

}  // namespace paceline::data
