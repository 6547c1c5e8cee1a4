// Checks JSON against the schemas of docs/schema: as much of JSON Schema as they use, and an error for the rest.
#ifndef TENSORBROKER_TESTS_CLI_SCHEMA_H_
#define TENSORBROKER_TESTS_CLI_SCHEMA_H_

#include <string>

namespace tensorbroker::cli {

// Empty where `json` is JSON and as docs/schema/`name`.json says; else where it is not, and why.
std::string CheckAgainstSchema(const std::string& json, const std::string& name);

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_TESTS_CLI_SCHEMA_H_
