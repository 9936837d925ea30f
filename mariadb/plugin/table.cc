// What all handlers of one table share.

#include "table.h"
#include "two_phase.h"
#include "definition.h"
#include "errors.h"
#include "names.h"

namespace millpond {

namespace {

constexpr uint PRIMARY_LENGTH_BYTES = 2;

// A cursor that is freed with its block.
struct OwnCursor {
  millpond_cursor *cursor = nullptr;
  ~OwnCursor() { millpond_cursor_free(cursor); }
};

// A transaction that is freed with its block.
struct OwnTxn {
  millpond_txn *txn = nullptr;
  ~OwnTxn() { millpond_txn_free(txn); }
};

// Rows of prepared transactions that a start has found are not committed, so no reader sees their
// keys. Before them, since the last committed row, fewer than so many keys were handed out.
constexpr ulonglong KEYS_OF_PREPARED = 1ULL << 32;

// Puts the last key of a tree into `key`, which stays empty if there is none. It is read by a
// transaction of its own: the statement's would draw its snapshot now, and it would count as a user
// of the table, for which a change of the table in the same statement would wait.
int last_key(millpond_table *tree, Buffer *key) {
  OwnTxn reader;
  millpond_txn_options options{};
  options.isolation = MILLPOND_ISOLATION_READ_COMMITTED;
  if (int rc = millpond_txn_new(database, &reader.txn)) return rc;
  if (int rc = millpond_txn_begin(reader.txn, &options)) return rc;
  OwnCursor own;
  if (int rc = millpond_cursor_new(tree, nullptr, &own.cursor)) return rc;
  millpond_seek_to to{};
  millpond_row row;
  to.seek = MILLPOND_SEEK_LAST;
  int rc = millpond_cursor_seek(own.cursor, reader.txn, &to, &row);
  if (rc == MILLPOND_RC_OK) key->append(row.key.ptr, row.key.len);
  return rc == MILLPOND_RC_NOT_FOUND ? MILLPOND_RC_OK : rc;
}

}  // namespace

Table::~Table() { free_trees(); }

void Table::free_trees() {
  millpond_table_free(rows_);
  rows_ = nullptr;
  for (uint i = 0; i < count_; i++) {
    millpond_table_free(indexes_[i].tree);
    indexes_[i].tree = nullptr;
  }
}

const char *Table::refusal(const TABLE *table) {
  const TABLE_SHARE *share = table->s;
  KeyCodec codec;
  for (uint i = 0; i < share->keys; i++) {
    if (const char *what = codec.init(share, &table->key_info[i])) return what;
  }
  return nullptr;
}

int Table::open(const char *path, const TABLE *table) {
  const TABLE_SHARE *share = table->s;
  name_ = table_name_of(path);
  count_ = share->keys;
  primary_ = share->primary_key < MAX_KEY ? share->primary_key : MAX_KEY;
  indexes_.reset(new Index[count_]);
  for (uint i = 0; i < count_; i++) {
    const KEY &key = table->key_info[i];
    indexes_[i].unique = key.flags & HA_NOSAME;
    for (uint p = 0; p < key.user_defined_key_parts; p++) {
      if (!table->field[key.key_part[p].fieldnr - 1]->stored_in_db()) indexes_[i].has_virtual = has_virtual_ = true;
    }
    if (indexes_[i].codec.init(share, &key)) return HA_ERR_UNSUPPORTED;
    indexes_[i].flags = IndexFlags(share, i, key.ext_key_parts);
  }
  for (uint i = 0; has_primary() && i < count_; i++) {
    const KEY &key = table->key_info[i];
    if (i == primary_ || indexes_[i].unique || key.ext_key_parts == key.user_defined_key_parts) continue;
    indexes_[i].codec.extend(&key, indexes_[primary_].codec);
  }
  row_.init(share, has_primary() ? &indexes_[primary_].codec : nullptr);
  memory_ = memory_of(name_);
  return open_trees(table);
}

int Table::open_trees(const TABLE *table) {
  const TABLE_SHARE *share = table->s;
  int rc = millpond_table_open(database, bytes_of(name_.data(), name_.size()), &rows_);
  for (uint i = 0; rc == MILLPOND_RC_OK && i < count_; i++) {
    if (i == primary_) continue;
    std::string &name = indexes_[i].tree_name;
    name = index_name_of(name_, share->key_info[i]);
    rc = millpond_table_open(database, bytes_of(name.data(), name.size()), &indexes_[i].tree);
    if (rc == MILLPOND_RC_NO_SUCH_TABLE) rc = find_renamed(share, i);
  }
  misfits_.clear();
  if (rc == MILLPOND_RC_OK) rc = compare_definition_of(MAX_KEY, table);
  for (uint i = 0; rc == MILLPOND_RC_OK && i < count_; i++) {
    if (i != primary_) rc = compare_definition_of(i, table);
  }
  for (const std::string &misfit : misfits_) {
    sql_print_error("Millpond: the definition of %s.%s (%s%s) does not fit its data: %s. Reads may be wrong: put the "
                    "file back that belongs to the data",
                    share->db.str, share->table_name.str, share->normalized_path.str, reg_ext, misfit.c_str());
  }
  return server_error(nullptr, rc);
}

// Compares the definition with the one that a tree was made with: that of an index, or of the rows for
// MAX_KEY.
int Table::compare_definition_of(uint i, const TABLE *table) {
  Result metadata;
  if (int rc = millpond_table_metadata(i == MAX_KEY ? rows_ : indexes_[i].tree, &metadata)) return rc;
  compare_definition(table, i, std::string(reinterpret_cast<const char *>(metadata.ptr), metadata.len), &misfits_);
  return MILLPOND_RC_OK;
}

// Opens the tree of an index that has another name than its index: the server ended between the two
// steps that rename an index. It is the only tree that no index is named like.
int Table::find_renamed(const TABLE_SHARE *share, uint i) {
  std::vector<std::string> names, unknown;
  if (int rc = trees_of(name_, &names)) return rc;
  for (const std::string &tree : names) {
    bool known = tree == name_;
    for (uint k = 0; k < count_ && !known; k++) known = tree == index_name_of(name_, share->key_info[k]);
    if (!known) unknown.push_back(tree);
  }
  if (unknown.size() != 1) return MILLPOND_RC_NO_SUCH_TABLE;
  indexes_[i].tree_name = unknown[0];
  return millpond_table_open(database, bytes_of(unknown[0].data(), unknown[0].size()), &indexes_[i].tree);
}

int Table::reopen_trees(const TABLE *table) {
  free_trees();
  forget_sizes();
  statistics_.forget();
  return open_trees(table);
}

uint Table::primary_bytes() const {
  return has_primary() ? indexes_[primary_].codec.fixed_bytes() : HIDDEN_KEY_BYTES;
}

void Table::append_entry_value(uint i, const uchar *primary, size_t bytes, Buffer &out) const {
  if (indexes_[i].unique) {
    out.append(primary, bytes);
  } else if (primary_bytes() == 0) {
    out.push(static_cast<uchar>(bytes));
    out.push(static_cast<uchar>(bytes >> 8));
  }
}

bool Table::primary_of(uint i, millpond_bytes key, millpond_bytes value, millpond_bytes *primary) const {
  if (indexes_[i].unique) {
    *primary = value;
    return value.len > 0;
  }
  size_t bytes = primary_bytes();
  if (bytes == 0) {
    if (value.len != PRIMARY_LENGTH_BYTES) return false;
    bytes = uint2korr(value.ptr);
  }
  if (bytes == 0 || bytes > key.len) return false;
  *primary = bytes_of(key.ptr + key.len - bytes, bytes);
  return true;
}

bool Table::covers(uint i, const MY_BITMAP *columns) const {
  bool named = false;
  auto has = [&named](const KeyCodec &codec, uint field) {
    for (uint p = 0; p < codec.parts(); p++) {
      if (codec.part(p).field != field) continue;
      named = true;
      if (codec.restorable(p)) return true;
    }
    return false;
  };
  for (uint field = bitmap_get_first_set(columns); field != MY_BIT_NONE;
       field = bitmap_get_next_set(columns, field)) {
    named = false;
    if (has(indexes_[i].codec, field) || (has_primary() && has(indexes_[primary_].codec, field))) continue;
    if (named || !indexes_[i].has_virtual) return false;
  }
  return true;
}

void Table::sizes(ulonglong *rows, ulonglong *bytes) {
  constexpr ulonglong LIFE_US = 1000000;
  const ulonglong now = microsecond_interval_timer();
  const ulonglong changes = statistics_.all_changes();
  const ulonglong changed = changes - sizes_at_change_.load(std::memory_order_relaxed);
  const bool many = changed > size_rows_.load(std::memory_order_relaxed) / 10;
  ulonglong from = sizes_from_us_.load(std::memory_order_relaxed);
  // One handler asks; the others use what is there.
  if ((from == 0 || many || now - from > LIFE_US) && sizes_from_us_.compare_exchange_strong(from, now)) {
    sizes_at_change_.store(changes, std::memory_order_relaxed);
    millpond_table_stats found{};
    if (millpond_table_sizes(database, rows_, &found) == MILLPOND_RC_OK) {
      size_rows_.store(found.rows, std::memory_order_relaxed);
      size_bytes_.store((found.pages + found.value_pages) * found.page_bytes, std::memory_order_relaxed);
    }
  }
  *rows = size_rows_.load(std::memory_order_relaxed);
  *bytes = size_bytes_.load(std::memory_order_relaxed);
}

int Table::next_hidden_key(ulonglong *next) {
  if (!memory_->knows_key.load(std::memory_order_acquire)) {
    Buffer key;
    if (int rc = last_key(rows_, &key)) return rc;
    if (key.size() == HIDDEN_KEY_BYTES) memory_->pass_key(mi_uint8korr(key.data()));
    if (had_prepared_at_start) memory_->pass_key(memory_->next_key.load() + KEYS_OF_PREPARED);
    memory_->knows_key.store(true, std::memory_order_release);
  }
  *next = memory_->next_key.fetch_add(1);
  return MILLPOND_RC_OK;
}

}  // namespace millpond
