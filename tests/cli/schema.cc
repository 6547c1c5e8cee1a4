#include "tests/cli/schema.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

namespace tensorbroker::cli {
namespace {

using Json = nlohmann::json;

Json Load(const std::string& file) {
  std::ifstream in(std::string(TENSORBROKER_SCHEMA_DIR) + "/" + file);
  return Json::parse(in, nullptr, /*allow_exceptions=*/false);
}

bool HasType(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "boolean") return value.is_boolean();
  return type == "null" && value.is_null();
}

// `root` is the document that "#/..." points into.
std::string Check(const Json& value, const Json& schema, const Json& root, const std::string& path) {
  static const std::set<std::string> kKnown = {
      "$schema",     "$id",     "$ref",       "title",
      "description", "type",    "enum",       "const",
      "anyOf",       "items",   "properties", "required",
      "minimum",     "pattern", "$defs",      "additionalProperties"};
  if (!schema.is_object()) return path + ": no schema";
  for (const auto& [key, unused] : schema.items()) {
    if (kKnown.count(key) == 0) return path + ": the schema's \"" + key + "\" is not known here";
  }
  if (schema.contains("$ref")) {
    const std::string ref = schema["$ref"];
    const size_t hash = ref.find('#');
    const Json document = hash == 0 ? root : Load(ref.substr(0, hash));
    const Json::json_pointer pointer(ref.substr(hash + 1));
    if (!document.contains(pointer)) return path + ": " + ref + " is not there";
    return Check(value, document[pointer], document, path);
  }
  if (schema.contains("type") && !HasType(value, schema["type"])) {
    return path + ": " + value.dump() + " is no " + schema["type"].get<std::string>();
  }
  if (schema.contains("const") && value != schema["const"])
    return path + ": " + value.dump() + " is not " + schema["const"].dump();
  if (schema.contains("enum")) {
    bool found = false;
    for (const Json& each : schema["enum"]) found = found || each == value;
    if (!found) return path + ": " + value.dump() + " is none of " + schema["enum"].dump();
  }
  if (schema.contains("anyOf")) {
    std::string why;
    for (const Json& each : schema["anyOf"]) {
      const std::string error = Check(value, each, root, path);
      if (error.empty()) return "";
      why += " (" + error + ")";
    }
    return path + ": as none of anyOf:" + why;
  }
  if (schema.contains("minimum") && value.get<double>() < schema["minimum"].get<double>()) {
    return path + ": " + value.dump() + " is below the minimum";
  }
  if (schema.contains("pattern") &&
      !std::regex_search(value.get<std::string>(), std::regex(schema["pattern"].get<std::string>()))) {
    return path + ": " + value.dump() + " is not as " + schema["pattern"].dump();
  }
  if (value.is_array() && schema.contains("items")) {
    for (size_t i = 0; i < value.size(); ++i) {
      std::string error = Check(value[i], schema["items"], root, path + "/" + std::to_string(i));
      if (!error.empty()) return error;
    }
  }
  if (!value.is_object()) return "";
  for (const Json& key : schema.value("required", Json::array())) {
    if (!value.contains(key.get<std::string>())) return path + ": " + key.dump() + " is missing";
  }
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [key, member] : value.items()) {
    if (properties.contains(key)) {
      std::string error = Check(member, properties[key], root, path + "/" + key);
      if (!error.empty()) return error;
    } else if (!schema.value("additionalProperties", true)) {
      return path + ": \"" + key + "\" is not in the schema";
    }
  }
  return "";
}

}  // namespace

std::string CheckAgainstSchema(const std::string& json, const std::string& name) {
  const Json value = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return "no JSON: " + json;
  const Json schema = Load(name + ".json");
  if (schema.is_discarded()) return "docs/schema/" + name + ".json is no JSON";
  return Check(value, schema, schema, "");
}

}  // namespace tensorbroker::cli
