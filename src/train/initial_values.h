#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "disk/file_system.h"
#include "train/trainer.h"

namespace paceline::train {

// Takes the parameters of a safetensors file, and the running statistics that it has. Every
// parameter of the model must be there under its name, as F32 and in its shape: kBadData names
// the file and the tensor. Returns the names of tensors that the model does not have.
Result<std::vector<std::string>> TakeInitialValues(disk::FileSystem& fs, const std::string& path,
                                                   Trainer& trainer);

}  // namespace paceline::train
