// What a crash has left, and nobody will use: dropped when the server starts.

#include "leftovers.h"
#include "bulk_insert.h"
#include "engine.h"
#include "names.h"

#include <unistd.h>

namespace millpond {

namespace {

// How the server names tables that a statement is making.
constexpr char UNFINISHED[] = "#sql";

// Tells whether a tree belongs to a table that a statement was making, and which the server does
// not know.
bool is_orphan(const std::string &tree) {
  const size_t table = tree.find('/') + 1;
  if (table == 0 || tree.compare(table, sizeof UNFINISHED - 1, UNFINISHED) != 0) return false;
  // The table's name without its index, and without its partition.
  std::string name = tree.substr(0, tree.find('/', table));
  name.resize(std::min(name.size(), name.find("#P#", table)));
  const std::string definition = std::string(mysql_real_data_home) + name + reg_ext;
  return access(definition.c_str(), F_OK) != 0;
}

template <typename Chosen>
int drop_where(Chosen chosen) {
  std::vector<std::string> names, wanted;
  int rc = all_trees(&names);
  for (const std::string &name : names) {
    if (chosen(name)) wanted.push_back(name);
  }
  if (rc == MILLPOND_RC_OK) rc = drop_trees(wanted);
  if (rc == MILLPOND_RC_OK && !wanted.empty()) {
    sql_print_information("Millpond: dropped %zu trees that a crash had left", wanted.size());
  } else if (rc != MILLPOND_RC_OK) {
    sql_print_warning("Millpond: what a crash has left is not dropped: %s", millpond_error_text());
  }
  return rc;
}

}  // namespace

void drop_leftovers() {
  (void)drop_where([](const std::string &tree) { return is_temporary(tree) || BulkInsert::is_new(tree); });
}

int drop_orphans(handlerton *) { return drop_where(is_orphan) == MILLPOND_RC_OK ? 0 : 1; }

}  // namespace millpond
