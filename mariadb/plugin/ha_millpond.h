// The server's interface of a storage engine.
//
// The class has its parts do what the server calls:
//   OpenTable      what the others share: table, transaction, errors, counts; InnoDB has much of it
//                  in row_prebuilt_t
//   ReadLocks      how reads lock rows, and what the last one has locked
//   RowReader      a row by its key, and from its bytes into the server's record
//   Scan           where a scan stands, and how it goes on
//   AutoIncrement  the numbers of new rows
//   RowWriter      changes of rows, one by one or loaded
#pragma once

#include "auto_increment.h"
#include "engine.h"
#include "open_table.h"
#include "read_locks.h"
#include "row_reader.h"
#include "row_writer.h"
#include "scan.h"

namespace millpond {

class ha_millpond final : public handler {
 public:
  ha_millpond(handlerton *engine, TABLE_SHARE *share)
      : handler(engine, share),
        open_(this),
        locks_(open_),
        reader_(open_, locks_),
        scan_(open_, locks_, reader_),
        numbers_(open_),
        writer_(open_, numbers_) {}

  // What the engine can do (ha_millpond.cc).
  ulonglong table_flags() const override;
  ulong index_flags(uint index, uint part, bool all_parts) const override;
  const char *index_type(uint) override { return "BTREE"; }
  enum row_type get_row_type() const override { return ROW_TYPE_DYNAMIC; }
  // The query cache knows nothing of snapshots, so it keeps no result of these tables.
  uint8 table_cache_type() override { return HA_CACHE_TBL_NOCACHE; }
  uint max_supported_record_length() const override { return HA_MAX_REC_LENGTH; }
  uint max_supported_keys() const override { return MAX_KEY; }
  uint max_supported_key_parts() const override { return MAX_REF_PARTS; }
  uint max_supported_key_length() const override { return MAX_KEY_BYTES; }
  uint max_supported_key_part_length() const override { return 3072; }

  // Opening, locks (ha_millpond.cc).
  int open(const char *path, int mode, uint test_if_locked) override;
  int close() override;
  int external_lock(THD *thd, int lock_type) override;
  int start_stmt(THD *thd, thr_lock_type lock_type) override;
  THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type) override;
  uint lock_count() const override { return 0; }
  int extra(ha_extra_function operation) override;
  int reset() override;
  bool get_error_message(int error, String *text) override;
  void print_error(int error, myf flags) override;
  void unlock_row() override { locks_.unlock_row(); }
  void try_semi_consistent_read(bool yes) override { locks_.set_semi_consistent(yes); }
  bool was_semi_consistent_read() override { return locks_.has_peeked(); }
  // HANDLER reads by the snapshot, as a query does.
  void init_table_handle_for_HANDLER() override {
    locks_.choose_none();
    by_handler_ = true;
  }

  // What the optimizer asks (estimates.cc).
  int info(uint flag) override;
  ha_rows records_in_range(uint index, const key_range *min, const key_range *max, page_range *) override;
  ha_rows estimate_rows_upper_bound() override;
  // As InnoDB: an ORDER BY or GROUP BY of the whole table may go by any index.
  const key_map *keys_to_use_for_scanning() override { return &key_map_full; }
#if MYSQL_VERSION_ID < 110000
  double scan_time() override;
  double read_time(uint index, uint ranges, ha_rows rows) override;
#endif

  // Changes of tables (ddl.cc).
  int create(const char *path, TABLE *form, HA_CREATE_INFO *info) override;
  int delete_table(const char *path) override;
  int rename_table(const char *from, const char *to) override;
  int truncate() override;
  int reset_auto_increment(ulonglong value) override;
  void update_create_info(HA_CREATE_INFO *info) override;
  bool check_if_incompatible_data(HA_CREATE_INFO *info, uint changes) override;

  // Changes of a table's definition alone (alter.cc).
  bool can_convert_nocopy(const Field &field, const Column_definition &wanted) const override;
  Compare_keys compare_key_parts(const Field &field, const Column_definition &wanted, const KEY_PART_INFO &part,
                                 const KEY_PART_INFO &wanted_part) const override;
  enum_alter_inplace_result check_if_supported_inplace_alter(TABLE *altered,
                                                             Alter_inplace_info *changes) override;
  bool prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *changes) override;
  bool commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *changes, bool commit) override;

  // Maintenance (check.cc).
  int check(THD *thd, HA_CHECK_OPT *) override;
  int analyze(THD *thd, HA_CHECK_OPT *) override;
  int optimize(THD *, HA_CHECK_OPT *) override;

  // Reads (scan.cc), and rows by their positions (row_reader.cc).
  int index_init(uint index, bool sorted) override;
  int index_end() override;
  int index_read_map(uchar *record, const uchar *key, key_part_map map, ha_rkey_function find) override {
    return scan_.read(record, key, map, find);
  }
  int index_next(uchar *record) override { return scan_.next(record); }
  int index_prev(uchar *record) override { return scan_.prev(record); }
  int index_first(uchar *record) override { return scan_.first(record); }
  int index_last(uchar *record) override { return scan_.last(record); }
  int index_next_same(uchar *record, const uchar *, uint) override { return scan_.next_same(record); }
  int rnd_init(bool) override { return scan_.begin(MAX_KEY); }
  int rnd_end() override { return index_end(); }
  int rnd_next(uchar *record) override { return scan_.next_row(record); }
  int rnd_pos(uchar *record, uchar *place) override { return reader_.read_position(place, record); }
  void position(const uchar *record) override { reader_.position_of(record, ref); }
  int cmp_ref(const uchar *a, const uchar *b) override { return reader_.compare_positions(a, b); }

  // Conditions on index entries, and reads of many ranges (conditions.cc).
  Item *idx_cond_push(uint index, Item *condition) override;
  bool rowid_filter_push(Rowid_filter *filter) override;
  handler *clone(const char *name, MEM_ROOT *memory) override;
  int multi_range_read_init(RANGE_SEQ_IF *ranges, void *argument, uint count, uint mode,
                            HANDLER_BUFFER *memory) override;
  int multi_range_read_next(range_id_t *range) override;
  ha_rows multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *argument, uint count,
                                      uint *bytes, uint *flags, Cost_estimate *cost) override;
  ha_rows multi_range_read_info(uint index, uint count, uint keys, uint parts, uint *bytes, uint *flags,
                                Cost_estimate *cost) override;
  int multi_range_read_explain_info(uint mode, char *text, size_t bytes) override;

  // Changes of rows (row_writer.cc) and their numbers (auto_increment.cc).
  int write_row(const uchar *record) override { return writer_.insert(record); }
  int update_row(const uchar *before, const uchar *after) override { return writer_.update(before, after); }
  int delete_row(const uchar *record) override { return writer_.remove(record); }
  void start_bulk_insert(ha_rows rows, uint flags) override { writer_.begin_bulk(rows, flags); }
  int end_bulk_insert() override { return writer_.end_bulk(); }
  void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                          ulonglong *reserved) override {
    numbers_.reserve(offset, increment, wanted, first, reserved);
  }

 private:
  void end_handler();

  // estimates.cc
  static uint least_row_bytes(const TABLE_SHARE *share);

  // check.cc
  int check_failed(THD *thd, int error);

  OpenTable open_;
  ReadLocks locks_;
  RowReader reader_;
  Scan scan_;
  AutoIncrement numbers_;
  RowWriter writer_;
  DsMrr_impl many_ranges_;
  bool by_handler_ = false;  // HANDLER has opened the table for its reads.
  ulonglong statistics_seen_ = 0;
  uint least_row_bytes_ = 1;
};

}  // namespace millpond
