#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/image_index.h"

namespace paceline::data {

// What to look through. Paths are below `root`, because data sets move.
struct ImageLocation {
  std::filesystem::path root;
  bool tar = false;
  // Of folders of classes: the one that holds them. Of tar files: all of them, sorted.
  std::vector<std::string> paths;
  // Of folders: the names of all classes, sorted; their order gives the labels.
  std::vector<std::string> classes;
};

// Looks through folders of JPEG files or tar files in the way of WebDataset. Bad records are left
// out and counted: what does not begin like a JPEG, a sample of a tar file without image or without
// label, the rest of a tar file that is cut or damaged. kBadData only for what cannot be opened.
Result<ImageIndex> ScanImages(const ImageLocation& location);

// Whether the folders or tar files of an index are as they were when it was made. Files of a folder
// that were rewritten in place are noticed when they are read.
bool IsCurrent(const ImageIndex& index, const ImageLocation& location);

struct KeptIndex {
  ImageIndex index;
  std::vector<std::string> warnings;  // why it could not be kept, or was made anew
};

// The index in `file` if it is current; else a new one, which is kept there. An index that cannot
// be read or written costs time, never the run.
Result<KeptIndex> LoadOrScan(const ImageLocation& location, const std::filesystem::path& file);

}  // namespace paceline::data
