// The rows of a new table, loaded in the order of their keys.

#include "bulk_insert.h"
#include "definition.h"
#include "names.h"

namespace millpond {

namespace {

// Memory for sorting, of all trees of a table together.
constexpr size_t SORT_BYTES = 128 * 1024 * 1024;
constexpr uint64_t TABLE_WAIT_MS = 60000;
// A KILL is looked for each time so many entries have been loaded.
constexpr uint KILL_STEP = 1024;

// A transaction of its own, for one read.
struct OwnTxn {
  millpond_txn *txn = nullptr;
  ~OwnTxn() { millpond_txn_free(txn); }
  int begin() {
    millpond_txn_options options{};
    if (int rc = millpond_txn_new(database, &txn)) return rc;
    return millpond_txn_begin(txn, &options);
  }
};

millpond_bytes bytes_of_name(const std::string &name) { return bytes_of(name.data(), name.size()); }

}  // namespace

// No index has a name with a zero byte.
static const std::string NEW("\0new", 4);

std::string BulkInsert::Tree::new_name() const { return name + NEW; }

bool BulkInsert::is_new(const std::string &tree) {
  return tree.size() > NEW.size() && tree.compare(tree.size() - NEW.size(), NEW.size(), NEW) == 0;
}

BulkInsert::BulkInsert(const Table &table, const TABLE *server_table)
    : table_(table), rows_(table.indexes()) {
  const size_t memory = SORT_BYTES / (table.indexes() + (table.has_primary() ? 0 : 1));
  for (uint i = 0; i < table.indexes(); i++) {
    // The primary key has no tree of its own, but a place among the indexes.
    std::string name = index_name_of(table.name(), server_table->key_info[i]);
    trees_.emplace_back(new Tree(std::move(name), definition_of_index(server_table, i), memory));
    trees_.back()->unique = table.index(i).unique;
  }
  // Trees below the table's name are dropped with it.
  trees_.emplace_back(new Tree(table.name() + "/", definition_of_rows(server_table), memory));
  trees_.back()->unique = true;
}

BulkInsert::~BulkInsert() {
  for (auto &tree : trees_) millpond_load_free(tree->load);
  drop_new();
}

int BulkInsert::begin_load(Tree &tree) {
  return millpond_load_begin(database, bytes_of_name(tree.new_name()),
                             bytes_of_name(tree.definition), &tree.load);
}

int BulkInsert::add(uint index, millpond_bytes key, millpond_bytes value) {
  Tree &tree = this->tree(index);
  if (tree.load == nullptr) {
    if (tree.sorter.add(key, value)) return MILLPOND_RC_OK;
    if (!tree.sorter.ascending() || index != MAX_KEY) {
      if (int error = tree.sorter.spill()) return -error;
      tree.sorter.add(key, value);
      return MILLPOND_RC_OK;
    }
    // All rows so far came in order: they are loaded, and those that follow too.
    if (int rc = begin_load(tree)) return rc;
    if (int rc = load_sorted(nullptr, tree, nullptr)) return rc;
    tree.sorter.clear();
  }
  const size_t both = key.len < tree.last.size() ? key.len : tree.last.size();
  int order = memcmp(key.ptr, tree.last.data(), both);
  if (order == 0) order = key.len < tree.last.size() ? -1 : key.len > tree.last.size();
  if (order == 0) return MILLPOND_RC_KEY_EXISTS;
  if (order < 0) return MILLPOND_RC_MISUSE;
  tree.last.assign(key.ptr, key.len);
  return millpond_load_row(tree.load, key, value);
}

// Loads the entries of the sorter. If two have one key, `tree.last` is that key, and the value of
// the second goes to `twice`.
int BulkInsert::load_sorted(THD *thd, Tree &tree, Buffer *twice) {
  if (int error = tree.sorter.sort()) return -error;
  for (uint n = 1;; n++) {
    millpond_bytes key, value;
    if (int error = tree.sorter.next(&key, &value)) return -error;
    if (key.ptr == nullptr) return MILLPOND_RC_OK;
    if (tree.unique && tree.has_last && tree.last.equals(key.ptr, key.len)) {
      twice->assign(value.ptr, value.len);
      return MILLPOND_RC_KEY_EXISTS;
    }
    tree.last.assign(key.ptr, key.len);
    tree.has_last = true;
    if (int rc = millpond_load_row(tree.load, key, value)) return rc;
    if (thd && n % KILL_STEP == 0 && thd_killed(thd)) return MILLPOND_RC_CANCELLED;
  }
}

// Reads the row of a primary key from the new tree of rows.
int BulkInsert::find_row(millpond_bytes primary, Duplicate *duplicate) {
  millpond_table *rows = nullptr;
  int rc = millpond_table_open(database, bytes_of_name(trees_[rows_]->new_name()), &rows);
  if (rc == MILLPOND_RC_OK) {
    OwnTxn own;
    rc = own.begin();
    if (rc == MILLPOND_RC_OK) {
      Result value;
      rc = millpond_get(own.txn, rows, primary, MILLPOND_LOCK_NONE, MILLPOND_WAIT_WAIT, &value, nullptr);
      duplicate->value.assign(value.ptr, value.len);
    }
  }
  millpond_table_free(rows);
  duplicate->primary.assign(primary.ptr, primary.len);
  return rc == MILLPOND_RC_OK ? MILLPOND_RC_KEY_EXISTS : rc;
}

int BulkInsert::finish(THD *thd, Duplicate *duplicate) {
  // The rows first: a duplicate in an index is shown by its row.
  for (uint n = 0; n <= rows_; n++) {
    const uint i = n == 0 ? rows_ : n - 1;
    if (i == table_.primary()) continue;
    Tree &tree = *trees_[i];
    Buffer twice;
    int rc = MILLPOND_RC_OK;
    if (tree.load == nullptr) {
      rc = begin_load(tree);
      if (rc == MILLPOND_RC_OK) rc = load_sorted(thd, tree, &twice);
    }
    if (rc == MILLPOND_RC_KEY_EXISTS) {
      duplicate->index = i == rows_ ? table_.primary() : i;
      if (i != rows_) return find_row(bytes_of(twice), duplicate);
      duplicate->primary.assign(tree.last.data(), tree.last.size());
      duplicate->value.assign(twice.data(), twice.size());
      return rc;
    }
    if (rc == MILLPOND_RC_OK) rc = millpond_load_commit(tree.load);
    if (rc != MILLPOND_RC_OK) return rc;
    tree.made = true;
  }
  return put_in_place();
}

int BulkInsert::put_in_place() {
  std::vector<std::string> names, new_names;
  std::vector<millpond_table_change> changes;
  for (uint i = 0; i <= rows_; i++) {
    if (i == table_.primary()) continue;
    names.push_back(i == rows_ ? table_.name() : trees_[i]->name);
    new_names.push_back(trees_[i]->new_name());
  }
  for (size_t i = 0; i < names.size(); i++) {
    millpond_table_change change{};
    change.op = MILLPOND_TABLE_OP_DROP;
    change.name = bytes_of_name(names[i]);
    changes.push_back(change);
    change.op = MILLPOND_TABLE_OP_RENAME;
    change.name = bytes_of_name(new_names[i]);
    change.new_name = bytes_of_name(names[i]);
    changes.push_back(change);
  }
  int rc = millpond_change_tables(database, changes.data(), changes.size(), TABLE_WAIT_MS);
  if (rc == MILLPOND_RC_OK) {
    for (auto &tree : trees_) tree->made = false;
  }
  return rc;
}

bool BulkInsert::is_empty(const Table &table) {
  OwnTxn own;
  millpond_cursor *cursor = nullptr;
  millpond_seek_to to{};
  millpond_row row;
  to.seek = MILLPOND_SEEK_FIRST;
  bool empty = own.begin() == MILLPOND_RC_OK &&
               millpond_cursor_new(table.rows(), nullptr, &cursor) == MILLPOND_RC_OK &&
               millpond_cursor_seek(cursor, own.txn, &to, &row) == MILLPOND_RC_NOT_FOUND;
  millpond_cursor_free(cursor);
  return empty;
}

// Drops the new trees that have not been put in place. If that fails, they go with the table, or at
// the next start.
void BulkInsert::drop_new() {
  std::vector<std::string> names;
  for (auto &tree : trees_) {
    if (tree->made) names.push_back(tree->new_name());
  }
  (void)drop_trees(names);
}

}  // namespace millpond
