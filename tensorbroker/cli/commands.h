// tensorctl's commands, one file a group: each function declares its group's.
#ifndef TENSORBROKER_CLI_COMMANDS_H_
#define TENSORBROKER_CLI_COMMANDS_H_

#include <vector>

#include "tensorbroker/cli/command_line.h"

namespace tensorbroker::cli {

void AddInfoCommand(CommandLine& line);       // info
void AddListCommand(CommandLine& line);       // ls
void AddStatCommands(CommandLine& line);      // stat, who
void AddTransferCommands(CommandLine& line);  // put, get, print
void AddNameCommands(CommandLine& line);      // wait, rename, rm
void AddWatchCommand(CommandLine& line);      // watch
void AddDoctorCommand(CommandLine& line);     // doctor
void AddBrokerCommands(CommandLine& line);    // serve, stop, run
void AddHiddenCommands(CommandLine& line);    // __names

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_COMMANDS_H_
