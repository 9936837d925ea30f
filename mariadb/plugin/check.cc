// CHECK, ANALYZE and OPTIMIZE TABLE.

#include "handler.h"
#include "errors.h"

namespace millpond {

namespace {

// A sum of primary keys that does not depend on their order.
struct Sum {
  uint64_t rows = 0;
  uint64_t hash = 0;

  // FNV-1a of each key, added up.
  void add(millpond_bytes key) {
    uint64_t one = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < key.len; i++) one = (one ^ key.ptr[i]) * 0x100000001b3ULL;
    rows++;
    hash += one;
  }
};

void tell(THD *thd, const TABLE *table, const char *text) {
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_CRASHED, "Millpond: %s: %s",
                      table->s->table_name.str, text);
}

}  // namespace

// Adds up the primary keys of a tree's entries. `i` is MAX_KEY for the rows.
int Handler::sum_keys(uint i, uint64_t *rows, uint64_t *hash, bool *damaged) {
  Sum sum;
  if (int error = cursor_of(i)) return error;
  millpond_seek_to to{};
  to.seek = MILLPOND_SEEK_FIRST;
  millpond_row row;
  int rc = millpond_cursor_seek(cursor_, txn(), &to, &row);
  for (; rc == MILLPOND_RC_OK; rc = millpond_cursor_next(cursor_, txn(), &row)) {
    millpond_bytes primary = row.key;
    if (i != MAX_KEY && !table_->primary_of(i, row.key, row.value, &primary)) *damaged = true;
    if (i == MAX_KEY && put_row(row.key, row.value, table->record[0])) *damaged = true;
    sum.add(primary);
  }
  *rows = sum.rows;
  *hash = sum.hash;
  return rc == MILLPOND_RC_NOT_FOUND ? 0 : error_of(rc);
}

// Ends a check that could not read on, and says why.
int Handler::check_failed(THD *thd, int error) {
  index_end();
  tell(thd, table, own_error_text(error).c_str());
  return error == OWN_ERRORS + MILLPOND_RC_CORRUPT ? HA_ADMIN_CORRUPT : HA_ADMIN_FAILED;
}

// Reads every row and every index entry, in one snapshot, and compares which rows they are of.
int Handler::check(THD *thd, HA_CHECK_OPT *) {
  uint64_t rows = 0, hash = 0;
  bool damaged = !table_->misfits().empty();
  for (const std::string &misfit : table_->misfits()) {
    const std::string file = std::string(table->s->table_name.str) + reg_ext;
    tell(thd, table, ("the definition (" + file + ") does not fit the data: " + misfit).c_str());
  }
  bool undecoded = false;
  if (int error = sum_keys(MAX_KEY, &rows, &hash, &undecoded)) return check_failed(thd, error);
  if (undecoded) tell(thd, table, "a row cannot be decoded");
  damaged |= undecoded;
  for (uint i = 0; i < table_->indexes(); i++) {
    if (i == table_->primary()) continue;
    uint64_t entries = 0, entries_hash = 0;
    if (int error = sum_keys(i, &entries, &entries_hash, &damaged)) return check_failed(thd, error);
    if (entries == rows && entries_hash == hash) continue;
    damaged = true;
    char text[200];
    snprintf(text, sizeof text, "the index %s has %llu entries, not those of the %llu rows",
             table->key_info[i].name.str, static_cast<ulonglong>(entries), static_cast<ulonglong>(rows));
    tell(thd, table, text);
  }
  index_end();
  return damaged ? HA_ADMIN_CORRUPT : HA_ADMIN_OK;
}

int Handler::analyze(THD *thd, HA_CHECK_OPT *) {
  note_changes(true);
  if (int rc = table_->statistics().renew(*table_, table, true)) {
    const int error = error_of(rc);
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR, "Millpond: %s",
                        last_error_text(error).c_str());
    return HA_ADMIN_FAILED;
  }
  return info(HA_STATUS_CONST | HA_STATUS_VARIABLE) ? HA_ADMIN_FAILED : HA_ADMIN_OK;
}

// A new copy of the table is the only way to make it denser.
int Handler::optimize(THD *, HA_CHECK_OPT *) { return HA_ADMIN_TRY_ALTER; }

}  // namespace millpond
