// `rondo info`: version, host, the variables that are set and what is wrong with them; with --env the whole table, with
// --env --markdown the document that is made of it.
#include "tools/rondo/info.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "base/env.h"
#include "rondo.h"

namespace {

using rondo::env::Variable;

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string printable(std::string_view text) { return text.empty() ? "(unset)" : std::string(text); }

/// `text` in lines of at most `width`, the second and later ones indented.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string lines(indent, ' ');
  std::size_t column = indent;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (column > indent && column + 1 + (end - at) > width) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      lines += ' ';
      ++column;
    }
    lines += text.substr(at, end - at);
    column += end - at;
    for (at = end; at < text.size() && text[at] == ' ';) ++at;
  }
  return lines + "\n";
}

void print_table() {
  for (const Variable& row : rondo::env::table()) {
    print(std::string(row.name) + "  (" + std::string(row.type) + "; default " + printable(row.default_value) + ")\n");
    print(wrapped(row.meaning, 4, 100));
  }
}

/// A cell of a Markdown table: | and * have meanings of their own there.
std::string cell(std::string_view text, bool code) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '|' || (letter == '*' && !code)) escaped += '\\';
    escaped += letter;
  }
  return code && !text.empty() ? "`" + escaped + "`" : escaped;
}

void print_markdown() {
  print("# Environment variables\n\n");
  print("Made by `rondo info --env --markdown`; the source is `runtime/base/env_table.cpp`.  A value comes from the\n");
  print("environment, else from the file that `NCCL_CONF_FILE` names or `~/.nccl.conf`, else from `/etc/nccl.conf`\n");
  print(
      "(`NAME=VALUE` lines, `#` comments).  Integers may be decimal, `0x` hexadecimal or `0` octal.  A wrong value "
      "is\n");
  print("an error that names the variable; a name that is not in this table is warned of, with the closest one that\n");
  print("is.\n\n");
  print("| Variable | Type | Default | Meaning |\n|---|---|---|---|\n");
  for (const Variable& row : rondo::env::table()) {
    print("| " + cell(row.name, true) + " | " + cell(row.type, false) + " | " + cell(row.default_value, true) + " | " +
          cell(row.meaning, false) + " |\n");
  }
}

void print_host() {
  utsname system{};
  uname(&system);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  sched_getaffinity(0, sizeof cpus, &cpus);
  const double gibibytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) /
                           (1024.0 * 1024 * 1024);
  int version = 0;
  const bool known = ncclGetVersion(&version) == ncclSuccess;
  std::printf("%s, reports itself as NCCL %s\n", rondoGetVersion(), known ? std::to_string(version).c_str() : "?");
  std::printf("host %s: %s %s, %d usable CPUs, %.1f GiB of memory\n", system.nodename, system.sysname, system.release,
              CPU_COUNT(&cpus), gibibytes);
}

void print_settings() {
  print("\nset:\n");
  bool any = false;
  for (const Variable& row : rondo::env::table()) {
    if (row.name.ends_with('*')) continue;
    const auto value = rondo::env::text(row.name);
    if (!value) continue;
    any = true;
    print("  " + std::string(row.name) + "=" + (row.name == "RONDO_JOB_SECRET" ? "(not shown)" : *value) + "\n");
  }
  if (!any) print("  nothing; `rondo info --env` lists what can be\n");
  for (const std::string& sentence : rondo::env::complaints()) print("warning: " + sentence + "\n");
}

}  // namespace

void add_info_command(CLI::App& app) {
  struct Options {
    bool environment = false;
    bool markdown = false;
  };
  auto options = std::make_shared<Options>();  // shared with the callback, which CLI11 copies
  CLI::App* const info = app.add_subcommand("info", "Tell the version, the host and the environment variables");
  CLI::Option* const env = info->add_flag("--env", options->environment, "Print every environment variable");
  info->add_flag("--markdown", options->markdown, "As the document docs/environment.md")->needs(env);
  info->callback([options] {
    if (options->markdown) return print_markdown();
    if (options->environment) return print_table();
    print_host();
    print_settings();
  });
}
