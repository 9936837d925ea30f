// Names of a table's trees.

#include "names.h"
#include "engine.h"

namespace millpond {

std::string table_name_of(const char *path) {
  std::string name(path);
  // The path is ./database/table, and for partitions ./database/table#P#p0.
  size_t table = name.rfind('/');
  if (table == std::string::npos || table == 0) return name;
  size_t base = name.rfind('/', table - 1);
  return base == std::string::npos ? name : name.substr(base + 1);
}

std::string index_name_of(const std::string &table, const KEY &key) {
  return table + "/" + std::string(key.name.str, key.name.length);
}

namespace {

struct Wanted {
  const std::string *table;
  std::vector<std::string> *names;
};

int collect(void *context, millpond_bytes name) {
  const Wanted *wanted = static_cast<const Wanted *>(context);
  const std::string &table = *wanted->table;
  std::string found(reinterpret_cast<const char *>(name.ptr), name.len);
  if (found.compare(0, table.size(), table) != 0) return 0;
  if (found.size() == table.size() || found[table.size()] == '/') wanted->names->push_back(found);
  return 0;
}

}  // namespace

int trees_of(const std::string &table, std::vector<std::string> *names) {
  Wanted wanted{&table, names};
  return millpond_table_names(database, collect, &wanted);
}

}  // namespace millpond
