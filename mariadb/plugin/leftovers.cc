// What a crash has left, and nobody will use: dropped when the server starts, or with its database.

#include "leftovers.h"
#include "bulk_insert.h"
#include "engine.h"
#include "names.h"

#include <unistd.h>

namespace millpond {

namespace {

// How the server names tables that a statement is making.
constexpr char UNFINISHED[] = "#sql";
// The end of the file in which the server keeps the partitions of a table.
constexpr char PARTITIONS[] = ".par";

bool is_there(const std::string &path) { return access(path.c_str(), F_OK) == 0; }

// Tells whether a tree belongs to a table that a statement was making, and which the server does
// not know. If the server is killed while ALTER TABLE puts the new copy of a partitioned table in the
// place of the old one, it drops the old one at its next start, and may have moved the definition
// away: then the new copy is the only one, and the list of its partitions is all that is left of it.
bool is_orphan(const std::string &tree) {
  const size_t table = tree.find('/') + 1;
  if (is_temporary(tree) || table == 0 || tree.compare(table, sizeof UNFINISHED - 1, UNFINISHED) != 0) return false;
  // The table's name without its index, and without its partition.
  std::string name = tree.substr(0, tree.find('/', table));
  name.resize(std::min(name.size(), name.find("#P#", table)));
  const std::string path = std::string(mysql_real_data_home) + name;
  return !is_there(path + reg_ext) && !is_there(path + PARTITIONS);
}

using Drop = int (*)(const std::vector<std::string> &names);

// Drops each tree that no transaction uses. One that XA has prepared stays while the server starts, and
// what it uses stays until the next start.
int drop_each_unused(const std::vector<std::string> &names) {
  const int rc = drop_unused_trees(names);
  if (rc != MILLPOND_RC_LOCK_TIMEOUT) return rc;
  for (const std::string &name : names) (void)drop_unused_trees({name});
  return rc;
}

// Drops the trees of a list, unless the return code says that there is none.
int drop_listed(int rc, const std::vector<std::string> &names, Drop drop = drop_trees) {
  if (rc == MILLPOND_RC_OK) rc = drop(names);
  if (rc == MILLPOND_RC_OK && !names.empty()) {
    sql_print_information("Millpond: dropped %zu trees that a crash had left", names.size());
  } else if (rc != MILLPOND_RC_OK) {
    sql_print_warning("Millpond: what a crash has left is not dropped: %s", millpond_error_text());
  }
  return rc;
}

template <typename Chosen>
int drop_where(Chosen chosen, Drop drop = drop_trees) {
  std::vector<std::string> names, wanted;
  const int rc = all_trees(&names);
  for (const std::string &name : names) {
    if (chosen(name)) wanted.push_back(name);
  }
  return drop_listed(rc, wanted, drop);
}

}  // namespace

void drop_leftovers() {
  const auto chosen = [](const std::string &tree) { return is_temporary(tree) || BulkInsert::is_new(tree); };
  (void)drop_where(chosen, drop_each_unused);
}

void drop_database(handlerton *, char *path) {
  std::string name(path);
  while (!name.empty() && name.back() == FN_LIBCHAR) name.pop_back();
  name = name.substr(name.rfind(FN_LIBCHAR) + 1) + '/';
  std::vector<std::string> names;
  const int rc = trees_with_prefix(name, &names);
  (void)drop_listed(rc, names);
}

int drop_orphans(handlerton *) { return drop_where(is_orphan) == MILLPOND_RC_OK ? 0 : 1; }

}  // namespace millpond
