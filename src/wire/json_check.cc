#include "wire/json_check.h"

#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace paceline::wire {

namespace {

using nlohmann::json;

// Receives the parser's events and builds nothing but the keys of the open objects.
class Checker final : public nlohmann::json_sax<json> {
 public:
  explicit Checker(int max_depth) : max_depth_(static_cast<std::size_t>(max_depth)) {}

  Status status() const { return status_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    status_ = Status::Error(Code::kBadData, fmt::format("key \"{}\" appears twice", name));
    return false;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    status_ = Status::Error(Code::kBadData, fmt::format("invalid JSON at byte {}", position));
    return false;
  }

 private:
  bool Open() {
    keys_.emplace_back();
    if (keys_.size() <= max_depth_) return true;
    status_ = Status::Error(Code::kBadData, fmt::format("nested deeper than {}", max_depth_));
    return false;
  }
  bool Close() {
    keys_.pop_back();
    return true;
  }

  std::size_t max_depth_;
  std::vector<std::set<std::string>> keys_;  // of each open object, outermost first
  Status status_;
};

}  // namespace

Status CheckJson(std::string_view text, int max_depth) {
  // The parser takes a NUL for the end and would not see what follows.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return Status::Error(Code::kBadData, fmt::format("NUL byte at byte {}", nul));
  }
  Checker checker(max_depth);
  if (json::sax_parse(text.begin(), text.end(), &checker)) return {};
  return checker.status();
}

}  // namespace paceline::wire
