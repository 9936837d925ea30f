// Names of a table's trees.

#include "names.h"
#include "engine.h"
#include "session.h"
#include "settings.h"

#include <algorithm>

namespace millpond {

namespace {

constexpr char TEMPORARY[] = "#tmp/";
// How the server names the files of temporary tables.
constexpr char TEMPORARY_FILE[] = "#sql-temptable-";

// Stands between the names of a table and of its partition. The file name of a table has no such
// sign otherwise.
constexpr char PARTITION[] = "#P#";

// The server's metadata locks keep other users out already. What still uses a table is a transaction
// that is ending, or one that XA has prepared and whose connection has ended. So a statement waits as
// long as for a row, but gives the first ones time to end.
constexpr uint64_t LEAST_WAIT_MS = 1000;
constexpr uint64_t WAIT_WITHOUT_STATEMENT_MS = 60000;

uint64_t table_wait_ms() {
  THD *thd = current_thd;
  return thd ? std::max<uint64_t>(settings::lock_wait_ms(thd), LEAST_WAIT_MS) : WAIT_WITHOUT_STATEMENT_MS;
}

}  // namespace

bool is_temporary(const std::string &tree) { return tree.compare(0, sizeof TEMPORARY - 1, TEMPORARY) == 0; }

std::string table_name_of(const char *path) {
  std::string name(path);
  // The path is ./database/table, and for partitions ./database/table#P#p0.
  size_t table = name.rfind('/');
  if (table == std::string::npos || table == 0) return name;
  if (name.compare(table + 1, sizeof TEMPORARY_FILE - 1, TEMPORARY_FILE) == 0) {
    return TEMPORARY + name.substr(table + 1);
  }
  size_t base = name.rfind('/', table - 1);
  return base == std::string::npos ? name : name.substr(base + 1);
}

std::string index_name_of(const std::string &table, const KEY &key) {
  return table + "/" + std::string(key.name.str, key.name.length);
}

namespace {

int collect(void *context, millpond_bytes name) {
  static_cast<std::vector<std::string> *>(context)->emplace_back(reinterpret_cast<const char *>(name.ptr),
                                                                 name.len);
  return 0;
}

}  // namespace

int all_trees(std::vector<std::string> *names) {
  return millpond_table_names(database, collect, names);
}

int trees_with_prefix(const std::string &prefix, std::vector<std::string> *names) {
  return millpond_table_names_with_prefix(database, bytes_of(prefix.data(), prefix.size()), collect, names);
}

// The statement may have read the tables that it changes, as EXCHANGE PARTITION does.
void release_own_tables() {
  if (Session *session = Session::existing(current_thd)) session->release_tables();
}

int make_changes(const std::vector<millpond_table_change> &changes) {
  if (changes.empty()) return MILLPOND_RC_OK;
  release_own_tables();
  return millpond_change_tables(database, changes.data(), changes.size(), table_wait_ms());
}

millpond_table_change change_of(uint op, const std::string &name) {
  millpond_table_change change{};
  change.op = op;
  change.name = bytes_of(name.data(), name.size());
  return change;
}

namespace {

int drop_within(const std::vector<std::string> &names, uint64_t wait_ms) {
  std::vector<millpond_table_change> changes;
  for (const std::string &name : names) {
    changes.push_back(change_of(MILLPOND_TABLE_OP_DROP, name));
  }
  if (changes.empty()) return MILLPOND_RC_OK;
  return millpond_change_tables(database, changes.data(), changes.size(), wait_ms);
}

}  // namespace

int drop_trees(const std::vector<std::string> &names) { return drop_within(names, table_wait_ms()); }

int drop_unused_trees(const std::vector<std::string> &names) { return drop_within(names, 0); }

int trees_of(const std::string &table, std::vector<std::string> *names) {
  // The name of the table is the begin of other tables' names too, so it is looked up by itself.
  millpond_table *rows = nullptr;
  const int rc = millpond_table_open(database, bytes_of(table.data(), table.size()), &rows);
  millpond_table_free(rows);
  if (rc == MILLPOND_RC_OK) names->push_back(table);
  if (rc != MILLPOND_RC_OK && rc != MILLPOND_RC_NO_SUCH_TABLE) return rc;
  return trees_with_prefix(table + '/', names);
}

int trees_of_partitions(const std::string &table, std::vector<std::string> *names) {
  return trees_with_prefix(table + PARTITION, names);
}

}  // namespace millpond
