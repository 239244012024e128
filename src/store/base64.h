#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace paceline::store {

// RFC 4648 section 4, with padding: how JSON carries the bytes of keys and values.
std::string EncodeBase64(std::string_view bytes);

// Nothing unless it is exactly what EncodeBase64 writes for some bytes.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace paceline::store
