// What the server's optimizer asks: statistics, costs, and how many rows a range has.

#include "ha_millpond.h"

#include <my_dir.h>

#include <algorithm>

namespace millpond {

namespace {

// Returns when the table's definition was made, seconds since 1970, or 0.
ulong created_at(const TABLE_SHARE *share) {
  char path[FN_REFLEN];
  MY_STAT found;
  strxnmov(path, sizeof path - 1, share->normalized_path.str, reg_ext, NullS);
  return my_stat(path, &found, MYF(0)) ? static_cast<ulong>(found.st_ctime) : 0;
}

// Returns whether a column's values take less than their longest one does: VARCHAR, TEXT and BLOB, and
// CHAR if the characters of its charset have different lengths.
bool varies(const Field *field) {
  if ((field->flags & BLOB_FLAG) || field->real_type() == MYSQL_TYPE_VARCHAR) return true;
  if (field->real_type() != MYSQL_TYPE_STRING) return false;
  return field->charset()->mbminlen != field->charset()->mbmaxlen;
}

// Returns the fewest bytes of a column in a row of InnoDB. NULL counts like a value.
uint least_column_bytes(const Field *field) {
  constexpr uint LONG = 128;  // The length of a longer string may take two bytes.
  if (!varies(field)) return field->pack_length();
  return !(field->flags & BLOB_FLAG) && field->field_length >= LONG ? 2 : 1;
}

}  // namespace

// Returns the fewest bytes that a row can take in InnoDB. Costs that use it are then the same.
uint ha_millpond::least_row_bytes(const TABLE_SHARE *share) {
  constexpr uint HEADER = 18, ROW_ID = 6;
  uint bytes = HEADER, nullable = 0;
  for (uint i = 0; i < share->fields; i++) {
    const Field *field = share->field[i];
    if (!field->stored_in_db()) continue;
    bytes += least_column_bytes(field);
    nullable += field->null_ptr != nullptr;
  }
  bytes += (nullable + 7) / 8;
  if (share->primary_key >= MAX_KEY) return bytes + ROW_ID;
  // A prefix in the primary key is stored beside its whole column.
  const KEY &primary = share->key_info[share->primary_key];
  for (uint i = 0; i < primary.user_defined_key_parts; i++) {
    const KEY_PART_INFO &part = primary.key_part[i];
    const Field *field = share->field[part.fieldnr - 1];
    if (part.length != field->key_length()) bytes += least_column_bytes(field);
  }
  return bytes;
}

int ha_millpond::info(uint flag) {
  if (flag & (HA_STATUS_VARIABLE | HA_STATUS_CONST)) {
    // Without new figures the old ones stay.
    // SHOW TABLE STATUS asks for the present ones.
    (void)open_.table().statistics().renew(open_.table(), table, flag & HA_STATUS_TIME);
    open_.table().statistics().show(table, &statistics_seen_);
  }
  if (flag & HA_STATUS_VARIABLE) {
    ulonglong rows, bytes;
    open_.table().sizes(&rows, &bytes);
    stats.records = rows;
    // No row is only an estimate. The optimizer would believe it.
    if (rows == 0 && !(flag & (HA_STATUS_TIME | HA_STATUS_OPEN))) stats.records = 1;
    stats.deleted = 0;
    stats.data_file_length = bytes;
    stats.index_file_length = open_.table().statistics().index_bytes();
    stats.mean_rec_length = rows ? static_cast<ulong>(bytes / rows) : 0;
    stats.mrr_length_per_rec = ref_length + sizeof(void *);
  }
  if (flag & HA_STATUS_CONST) {
    stats.block_size = PAGE_BYTES;
    stats.create_time = created_at(table->s);
  }
  if (flag & HA_STATUS_TIME) {
    stats.update_time = static_cast<ulong>(open_.table().memory()->changed_at.load(std::memory_order_relaxed));
  }
  if (flag & HA_STATUS_ERRKEY) errkey = open_.session() ? open_.session()->duplicate_index() : MAX_KEY;
  if (flag & HA_STATUS_AUTO) {
    uint64_t next = 0;
    if (table->found_next_number_field) (void)numbers_.next(&next);
    stats.auto_increment_value = next;
  }
  return 0;
}

ha_rows ha_millpond::records_in_range(uint index, const key_range *min, const key_range *max, page_range *) {
  const KeyCodec &codec = open_.table().index(index).codec;
  Buffer lower, upper, scratch;
  if (min) {
    codec.append_tuple(min->key, codec.parts_of(min->keypart_map), lower, scratch);
    if (min->flag == HA_READ_AFTER_KEY) advance_past_prefix(lower);
  }
  bool ends = false;
  if (max) {
    codec.append_tuple(max->key, codec.parts_of(max->keypart_map), upper, scratch);
    ends = max->flag == HA_READ_BEFORE_KEY || advance_past_prefix(upper);
  }
  millpond_range_stats found{};
  int rc = millpond_estimate(database, open_.table().tree(index), min ? bytes_of(lower) : no_bytes(),
                             ends ? bytes_of(upper) : no_bytes(), &found);
  ha_rows rows = found.rows;
  if (rc != MILLPOND_RC_OK) rows = min && max ? 10 : stats.records / 2;
  // Where InnoDB has not counted, it doubles what it has found, and believes no more than half of
  // the table; the same plans need the same.
  if (!found.exact) rows = std::min(2 * rows, stats.records / 2);
  scan_.expect(index, rows);
  return rows ? rows : 1;
}

// More rows than the table can have.
ha_rows ha_millpond::estimate_rows_upper_bound() {
  return 2 * stats.data_file_length / least_row_bytes_;
}

#if MYSQL_VERSION_ID < 110000
// The costs are InnoDB's, in reads of pages, so that the same data gets the same plans.
double ha_millpond::scan_time() {
  return std::max(1.0, static_cast<double>(stats.data_file_length) / PAGE_BYTES);
}

double ha_millpond::read_time(uint index, uint ranges, ha_rows rows) {
  if (index != table->s->primary_key) return handler::read_time(index, ranges, rows);
  const double all = static_cast<double>(estimate_rows_upper_bound());
  if (all < static_cast<double>(rows)) return scan_time();
  return ranges + static_cast<double>(rows) / all * scan_time();
}
#endif

}  // namespace millpond
