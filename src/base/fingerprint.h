#pragma once

#include <map>
#include <string>

namespace paceline {

// What has to be equal on all sides of a job, as one text: "key=value;key=value".
std::string MakeFingerprint(const std::map<std::string, std::string>& fields);

// "key: ours / theirs; ..." of what differs; empty when the texts are equal.
std::string FingerprintDifference(const std::string& ours, const std::string& theirs);

}  // namespace paceline
