// The table information_schema.MILLPOND_TABLES: how large each table is, and what has been done to it
// since the server's start.

#include "tables_table.h"
#include "info_row.h"
#include "lock_text.h"
#include "names.h"
#include "table_memory.h"

#include <algorithm>
#include <vector>

namespace millpond {

namespace {

ST_FIELD_INFO columns[] = {
    Show::Column("TABLE_SCHEMA", Show::Name(), NOT_NULL),
    Show::Column("TABLE_NAME", Show::Name(), NOT_NULL),
    Show::Column("PARTITION_NAME", Show::Name(), NULLABLE),
    Show::Column("TABLE_ROWS", Show::ULonglong(), NOT_NULL),
    Show::Column("ROW_PAGES", Show::ULonglong(), NOT_NULL),
    Show::Column("INDEX_PAGES", Show::ULonglong(), NOT_NULL),
    Show::Column("LONG_VALUE_PAGES", Show::ULonglong(), NOT_NULL),
    Show::Column("BYTES", Show::ULonglong(), NOT_NULL),
    Show::Column("FREE_BYTES", Show::ULonglong(), NOT_NULL),
    Show::Column("ROWS_INSERTED", Show::ULonglong(), NOT_NULL),
    Show::Column("ROWS_UPDATED", Show::ULonglong(), NOT_NULL),
    Show::Column("ROWS_DELETED", Show::ULonglong(), NOT_NULL),
    Show::Column("ROWS_READ", Show::ULonglong(), NOT_NULL),
    Show::Column("REDO_BYTES", Show::ULonglong(), NOT_NULL),
    Show::Column("WRITE_CONFLICTS", Show::ULonglong(), NOT_NULL),
    Show::Column("LOCK_TIMEOUTS", Show::ULonglong(), NOT_NULL),
    Show::Column("DEADLOCKS", Show::ULonglong(), NOT_NULL),
    Show::CEnd(),
};

// The sizes of the trees of one table.
struct Sizes {
  ulonglong rows = 0, row_pages = 0, index_pages = 0, value_pages = 0, bytes = 0, free_bytes = 0;

  // Adds a tree. Of one that has just been dropped there is nothing to add.
  void add(const std::string &tree, bool of_rows) {
    millpond_table *handle = nullptr;
    if (millpond_table_open(database, bytes_of(tree.data(), tree.size()), &handle) != MILLPOND_RC_OK) return;
    millpond_table_stats found{};
    if (millpond_table_sizes(database, handle, &found) == MILLPOND_RC_OK) {
      if (of_rows) rows = found.rows;
      (of_rows ? row_pages : index_pages) += found.pages;
      value_pages += found.value_pages;
      bytes += (found.pages + found.value_pages) * found.page_bytes;
      free_bytes += found.free_pages * found.page_bytes;
    }
    millpond_table_free(handle);
  }
};

// Tells whether a tree belongs to a table; the table's own name is that of its rows.
bool belongs(const std::string &tree, const std::string &table) {
  return tree.compare(0, table.size(), table) == 0 && (tree.size() == table.size() || tree[table.size()] == '/');
}

bool put(InfoRow &row, const std::string &table, const Sizes &sizes) {
  const TreeNames names = names_of(bytes_of(table.data(), table.size()));
  row.text(names.schema).text(names.table).text_or_null(names.partition);
  row.number(sizes.rows).number(sizes.row_pages).number(sizes.index_pages).number(sizes.value_pages);
  row.number(sizes.bytes).number(sizes.free_bytes);
  const std::shared_ptr<TableMemory> memory = known_memory_of(table);
  const RowCounts counts = memory ? memory->counts.get() : RowCounts();
  row.number(counts.inserted).number(counts.updated).number(counts.deleted).number(counts.read);
  row.number(counts.redo_bytes);
  row.number(memory ? memory->write_conflicts.load() : 0).number(memory ? memory->lock_timeouts.load() : 0);
  row.number(memory ? memory->deadlocks.load() : 0);
  return row.store();
}

int fill(THD *thd, TABLE_LIST *tables, COND *) {
  if (lacks_process_privilege(thd)) return 1;
  std::vector<std::string> trees;
  if (all_trees(&trees) != MILLPOND_RC_OK) return 0;
  InfoRow row(thd, tables->table);
  // The rows of a table come before its indexes; trees of other tables may stand between them, as
  // `a/b#P#p0` does between `a/b` and `a/b/c`.
  for (const std::string &table : trees) {
    const size_t schema = table.find('/');
    if (schema == std::string::npos || table.find('/', schema + 1) != std::string::npos) continue;
    if (is_temporary(table)) continue;
    if (thd_killed(thd)) return 1;
    Sizes sizes;
    for (auto tree = std::lower_bound(trees.begin(), trees.end(), table);
         tree != trees.end() && tree->compare(0, table.size(), table) == 0; ++tree) {
      if (belongs(*tree, table)) sizes.add(*tree, *tree == table);
    }
    if (put(row, table, sizes)) return 1;
  }
  return 0;
}

}  // namespace

int start_tables_table(void *place) { return start_info_table(place, columns, fill); }

}  // namespace millpond
