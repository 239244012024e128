#include "train/torch_guard.h"

#include <new>
#include <string_view>

#include <c10/util/Exception.h>

namespace paceline::train {

namespace {

std::string FirstLine(std::string_view text) {
  // The interpreter of TorchScript begins with where, over many lines, and ends with what.
  constexpr std::string_view kWhat = "RuntimeError: ";
  const std::size_t what = text.rfind(kWhat);
  if (text.find("TorchScript") != text.npos && what != text.npos) {
    text.remove_prefix(what + kWhat.size());
  }
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

Status FromTorchException(const std::exception& exception) {
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) {
    return Status::Error(Code::kUnavailable, "out of memory; try a smaller --batch");
  }
  if (const auto* error = dynamic_cast<const c10::Error*>(&exception)) {
    const std::string line = FirstLine(error->what_without_backtrace());
    if (line.find("can't allocate memory") != std::string::npos) {
      return Status::Error(Code::kUnavailable, "out of memory; try a smaller --batch");
    }
    return Status::Error(Code::kInternal, "torch: " + line);
  }
  return Status::Error(Code::kInternal, FirstLine(exception.what()));
}

}  // namespace paceline::train
