#include "store/etcd_client.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "store/base64.h"

namespace paceline::store {

namespace {

using Json = nlohmann::json;

Result<Json> Call(EtcdGateway& gateway, const std::string& path, const Json& request) {
  PACELINE_ASSIGN(const std::string text, gateway.Post(path, request.dump()));
  Json answer = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) {
    return Status::Error(Code::kProtocol, fmt::format("etcd {} answers {} with no JSON object",
                                                      gateway.Describe(), path));
  }
  return answer;
}

Status Senseless(const EtcdGateway& gateway, const char* path) {
  return Status::Error(Code::kProtocol, fmt::format("etcd {}: the answer to {} makes no sense",
                                                    gateway.Describe(), path));
}

// protobuf's JSON: 64-bit numbers are texts, zeros and empty fields are left out.
std::int64_t Number(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return 0;
  const auto& text = found->get_ref<const std::string&>();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

// A member, or an empty object.
const Json& Member(const Json& object, const char* name) {
  static const Json empty = Json::object();
  const auto found = object.find(name);
  return found == object.end() || !found->is_object() ? empty : *found;
}

std::string Text(std::int64_t number) { return std::to_string(number); }

// The first of "kvs" in the answer to a range request.
Result<std::optional<EtcdValue>> FirstValue(const Json& range) {
  const auto found = range.find("kvs");
  if (found == range.end() || !found->is_array() || found->empty()) {
    return std::optional<EtcdValue>();
  }
  const Json& entry = found->front();
  const auto bad = [] { return Status::Error(Code::kProtocol, "etcd sent a malformed value"); };
  if (!entry.is_object()) return bad();
  EtcdValue value{.create_revision = Number(entry, "create_revision"),
                  .mod_revision = Number(entry, "mod_revision"),
                  .lease = Number(entry, "lease")};
  if (const auto text = entry.find("value"); text != entry.end()) {
    if (!text->is_string()) return bad();
    auto bytes = DecodeBase64(text->get_ref<const std::string&>());
    if (!bytes) return bad();
    value.value = std::move(*bytes);
  }
  return std::optional<EtcdValue>(std::move(value));
}

// The value that range request number `index` of a transaction found.
Result<std::optional<EtcdValue>> RangeOf(const Json& transaction, std::size_t index) {
  const auto found = transaction.find("responses");
  if (found == transaction.end() || !found->is_array() || index >= found->size() ||
      !(*found)[index].is_object()) {
    return Status::Error(Code::kProtocol, "etcd answered a transaction in part");
  }
  return FirstValue(Member((*found)[index], "response_range"));
}

bool Succeeded(const Json& transaction) {
  const auto found = transaction.find("succeeded");
  return found != transaction.end() && found->is_boolean() && found->get<bool>();
}

Json Range(const std::string& key) { return {{"requestRange", {{"key", EncodeBase64(key)}}}}; }

}  // namespace

Result<std::int64_t> EtcdClient::GrantLease(std::chrono::seconds ttl) {
  constexpr char kPath[] = "/v3/lease/grant";
  PACELINE_ASSIGN(const Json answer, Call(gateway_, kPath, {{"TTL", Text(ttl.count())}}));
  const std::int64_t lease = Number(answer, "ID");
  if (lease == 0) return Senseless(gateway_, kPath);
  return lease;
}

Result<bool> EtcdClient::KeepAlive(std::int64_t lease) {
  constexpr char kPath[] = "/v3/lease/keepalive";
  PACELINE_ASSIGN(const Json answer, Call(gateway_, kPath, {{"ID", Text(lease)}}));
  const Json& result = Member(answer, "result");
  if (Number(result, "ID") != lease) return Senseless(gateway_, kPath);
  return Number(result, "TTL") > 0;
}

Result<EtcdLease> EtcdClient::TimeToLive(std::int64_t lease) {
  PACELINE_ASSIGN(const Json answer, Call(gateway_, "/v3/lease/timetolive", {{"ID", Text(lease)}}));
  return EtcdLease{.remaining = std::chrono::seconds(Number(answer, "TTL")),
                   .granted = std::chrono::seconds(Number(answer, "grantedTTL"))};
}

Status EtcdClient::Revoke(std::int64_t lease) {
  const auto answer = Call(gateway_, "/v3/lease/revoke", {{"ID", Text(lease)}});
  return answer.ok() || answer.status().code() == Code::kNotFound ? Status() : answer.status();
}

Result<std::optional<EtcdValue>> EtcdClient::Get(const std::string& key) {
  PACELINE_ASSIGN(const Json answer, Call(gateway_, "/v3/kv/range", {{"key", EncodeBase64(key)}}));
  return FirstValue(answer);
}

Result<EtcdValue> EtcdClient::PutIfAbsent(const PutIfAbsentRequest& request) {
  const std::string key = EncodeBase64(request.key);
  const Json put = {
      {"requestPut",
       {{"key", key}, {"value", EncodeBase64(request.value)}, {"lease", Text(request.lease)}}}};
  const Json compare = {{"key", key}, {"target", "CREATE"}, {"createRevision", "0"}};
  PACELINE_ASSIGN(const Json answer, Call(gateway_, "/v3/kv/txn",
                                          {{"compare", Json::array({compare})},
                                           {"success", Json::array({put, Range(request.key)})},
                                           {"failure", Json::array({Range(request.key)})}}));
  PACELINE_ASSIGN(auto value, RangeOf(answer, Succeeded(answer) ? 1 : 0));
  if (!value) return Senseless(gateway_, "/v3/kv/txn");
  return std::move(*value);
}

Result<EtcdClient::GuardedPutResult> EtcdClient::GuardedPut(const GuardedPutRequest& request,
                                                            std::string_view value) {
  const Json owner = {{"key", EncodeBase64(request.owner_key)},
                      {"target", "CREATE"},
                      {"createRevision", Text(request.owner_create_revision)}};
  const Json unchanged = {{"key", EncodeBase64(request.key)},
                          {"target", "MOD"},
                          {"modRevision", Text(request.mod_revision)}};
  const Json put = {
      {"requestPut", {{"key", EncodeBase64(request.key)}, {"value", EncodeBase64(value)}}}};
  PACELINE_ASSIGN(const Json answer,
                  Call(gateway_, "/v3/kv/txn",
                       {{"compare", Json::array({owner, unchanged})},
                        {"success", Json::array({put})},
                        {"failure", Json::array({Range(request.owner_key), Range(request.key)})}}));
  if (Succeeded(answer)) {
    return GuardedPutResult{.done = true, .revision = Number(Member(answer, "header"), "revision")};
  }
  GuardedPutResult result;
  PACELINE_ASSIGN(result.owner, RangeOf(answer, 0));
  PACELINE_ASSIGN(result.current, RangeOf(answer, 1));
  return result;
}

}  // namespace paceline::store
