// CHECK, ANALYZE and OPTIMIZE TABLE.

#include "ha_millpond.h"
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
  bool operator==(const Sum &other) const { return rows == other.rows && hash == other.hash; }
};

void tell(THD *thd, const TABLE *table, const char *text) {
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_CRASHED, "Millpond: %s: %s",
                      table->s->table_name.str, text);
}

// Adds up the primary keys of a tree's entries. `i` is MAX_KEY for the rows.
int sum_keys(OpenTable &open, uint i, Sum *sum, bool *damaged) {
  if (int rc = open.cursors().choose(i)) return open.error_of(rc);
  millpond_cursor *cursor = open.cursors().present();
  millpond_seek_to to{};
  to.seek = MILLPOND_SEEK_FIRST;
  millpond_row row;
  int rc = millpond_cursor_seek(cursor, open.txn(), &to, &row);
  for (; rc == MILLPOND_RC_OK; rc = millpond_cursor_next(cursor, open.txn(), &row)) {
    millpond_bytes primary = row.key;
    if (i != MAX_KEY && !open.table().primary_of(i, row.key, row.value, &primary)) *damaged = true;
    if (i == MAX_KEY && open.put_row(row.key, row.value, open.form()->record[0])) *damaged = true;
    sum->add(primary);
  }
  return rc == MILLPOND_RC_NOT_FOUND ? 0 : open.error_of(rc);
}

}  // namespace

// Ends a check that could not read on, and says why.
int ha_millpond::check_failed(THD *thd, int error) {
  index_end();
  tell(thd, table, open_.own_error_text(error).c_str());
  return error == OWN_ERRORS + MILLPOND_RC_CORRUPT ? HA_ADMIN_CORRUPT : HA_ADMIN_FAILED;
}

// Reads every row and every index entry, in one snapshot, and compares which rows they are of.
int ha_millpond::check(THD *thd, HA_CHECK_OPT *) {
  Sum rows;
  bool damaged = !open_.table().misfits().empty();
  for (const std::string &misfit : open_.table().misfits()) {
    const std::string file = std::string(table->s->table_name.str) + reg_ext;
    tell(thd, table, ("the definition (" + file + ") does not fit the data: " + misfit).c_str());
  }
  bool undecoded = false;
  if (int error = sum_keys(open_, MAX_KEY, &rows, &undecoded)) return check_failed(thd, error);
  if (undecoded) tell(thd, table, "a row cannot be decoded");
  damaged |= undecoded;
  for (uint i = 0; i < open_.table().indexes(); i++) {
    if (i == open_.table().primary()) continue;
    Sum entries;
    if (int error = sum_keys(open_, i, &entries, &damaged)) return check_failed(thd, error);
    if (entries == rows) continue;
    damaged = true;
    char text[200];
    snprintf(text, sizeof text, "the index %s has %llu entries, not those of the %llu rows",
             table->key_info[i].name.str, static_cast<ulonglong>(entries.rows), static_cast<ulonglong>(rows.rows));
    tell(thd, table, text);
  }
  index_end();
  return damaged ? HA_ADMIN_CORRUPT : HA_ADMIN_OK;
}

int ha_millpond::analyze(THD *thd, HA_CHECK_OPT *) {
  open_.tell_changes(true);
  if (int rc = open_.table().statistics().renew(open_.table(), table, true)) {
    const int error = open_.error_of(rc);
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR, "Millpond: %s",
                        last_error_text(error).c_str());
    return HA_ADMIN_FAILED;
  }
  return info(HA_STATUS_CONST | HA_STATUS_VARIABLE) ? HA_ADMIN_FAILED : HA_ADMIN_OK;
}

// A new copy of the table is the only way to make it denser.
int ha_millpond::optimize(THD *, HA_CHECK_OPT *) { return HA_ADMIN_TRY_ALTER; }

}  // namespace millpond
