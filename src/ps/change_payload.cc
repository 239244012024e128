#include "ps/change_payload.h"

#include <cstring>

#include <fmt/format.h>

#include "wire/bytes.h"
#include "wire/endian.h"

namespace paceline::ps {

namespace {

Status Damaged(const std::string& why) { return Status::Error(Code::kBadCheckpoint, why); }

}  // namespace

std::vector<std::byte> EncodeServerJob(const ServerJob& job) {
  wire::ByteWriter writer;
  writer.Number(job.index);
  writer.Number(job.servers);
  writer.Bytes(EncodeJobSpec(job.spec));
  return writer.Take();
}

Result<ServerJob> DecodeServerJob(std::span<const std::byte> bytes) {
  constexpr std::size_t kFields = 8;
  if (bytes.size() < kFields) return Damaged("a job is cut off");
  ServerJob job{
      .index = wire::LoadU32(bytes.data()), .servers = wire::LoadU32(bytes.data() + 4), .spec = {}};
  if (job.index >= job.servers || job.servers > kMaxServers) {
    return Damaged(fmt::format("server {} of {}", job.index, job.servers));
  }
  auto spec = DecodeJobSpec(bytes.subspan(kFields));
  if (!spec.ok()) return Damaged(spec.status().message());
  job.spec = std::move(*spec);
  return job;
}

}  // namespace paceline::ps
