#include "store/state_store.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "net/endpoint.h"
#include "store/etcd_store.h"
#include "store/file_store.h"

namespace paceline::store {

namespace {

constexpr std::string_view kFileScheme = "file:";
constexpr std::string_view kEtcdScheme = "etcd://";
constexpr std::size_t kMaxIdBytes = 128;
constexpr std::size_t kMaxOwnerBytes = 256;

bool IsIdCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

Status CheckOptions(const StateStoreOptions& options) {
  const auto bad = [](std::string text) {
    return Status::Error(Code::kInvalidArgument, std::move(text));
  };
  if (options.id.empty() || options.id.size() > kMaxIdBytes ||
      !std::all_of(options.id.begin(), options.id.end(), IsIdCharacter)) {
    return bad(fmt::format("store id '{}': expected 1 to {} letters, digits, '.', '_' or '-'",
                           options.id, kMaxIdBytes));
  }
  // The text ends up in the messages of other processes.
  if (options.owner.empty() || options.owner.size() > kMaxOwnerBytes ||
      std::any_of(options.owner.begin(), options.owner.end(),
                  [](char c) { return c >= 0 && c < ' '; })) {
    return bad("the owner of a store needs a text of one line");
  }
  if (options.lease_ttl < std::chrono::seconds(1) || options.lease_ttl > std::chrono::hours(24)) {
    return bad(fmt::format("lease of {} s: expected 1 to 86400", options.lease_ttl.count()));
  }
  if (options.request_timeout < std::chrono::milliseconds(1)) {
    return bad("a request needs a timeout of at least 1 ms");
  }
  if (options.compact_bytes > kMaxLogBytes) {
    return bad(
        fmt::format("log limit of {} bytes: at most {}", options.compact_bytes, kMaxLogBytes));
  }
  return {};
}

Result<std::vector<net::Endpoint>> ParseEndpoints(std::string_view list) {
  std::vector<net::Endpoint> endpoints;
  for (;;) {
    const std::size_t comma = list.find(',');
    PACELINE_ASSIGN(auto endpoint, net::ParseEndpoint(std::string(list.substr(0, comma))));
    endpoints.push_back(std::move(endpoint));
    if (comma == std::string_view::npos) return endpoints;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<std::unique_ptr<StateStore>> OpenStateStore(const std::string& where,
                                                   const StateStoreOptions& options) {
  PACELINE_TRY(CheckOptions(options));
  const std::string_view text = where;
  if (text.starts_with(kFileScheme) && text.size() > kFileScheme.size()) {
    return OpenFileStore(std::string(text.substr(kFileScheme.size())), options);
  }
  if (text.starts_with(kEtcdScheme)) {
    PACELINE_ASSIGN(auto endpoints, ParseEndpoints(text.substr(kEtcdScheme.size())));
    return OpenEtcdStore(std::move(endpoints), options);
  }
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("store '{}': expected file:PATH or etcd://host:port[,host:port...]", where));
}

}  // namespace paceline::store
