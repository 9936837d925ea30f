// Reads the server's binary log: its index, and the transactions in its files.
//
// Event: time u32 | type u8 | server u32 | bytes of the event u32 | end of it in the file u32 | flags u16
//        | body | checksum u32, if the file has them

#include "binlog_reader.h"

#include <cstring>
#include <fstream>
#include <set>

namespace millpond {

namespace {

constexpr size_t HEADER_BYTES = 19;
constexpr size_t CHECKSUM_BYTES = 4;
constexpr uchar MAGIC[] = {0xfe, 'b', 'i', 'n'};
// The engine makes only transactions durable by the binary log that are far smaller.
constexpr size_t KEPT_BYTES_MAX = 64 << 20;

enum Type : uchar {
  QUERY = 2,
  INTVAR = 5,
  APPEND_BLOCK = 9,
  DELETE_FILE = 11,
  RAND = 13,
  USER_VAR = 14,
  FORMAT = 15,
  XID_END = 16,
  BEGIN_LOAD_QUERY = 17,
  EXECUTE_LOAD_QUERY = 18,
  TABLE_MAP = 19,
  WRITE_ROWS_V1 = 23,
  DELETE_ROWS_V1 = 25,
  WRITE_ROWS = 30,
  DELETE_ROWS = 32,
  ANNOTATE_ROWS = 160,
  GTID = 162,
  START_ENCRYPTION = 164,
  QUERY_COMPRESSED = 165,
  WRITE_ROWS_COMPRESSED_V1 = 166,
  DELETE_ROWS_COMPRESSED = 171,
};

// Of an event with rows: the statement ends with it.
constexpr uint16 STATEMENT_END = 1;
// Of the event that begins a transaction: it has no end of its own.
constexpr uchar STANDALONE = 1;

// One event, whole.
struct Event {
  std::string bytes;
  size_t body_end = 0;  // Without the checksum.

  uchar type() const { return static_cast<uchar>(bytes[4]); }
  const uchar *at(size_t n) const { return reinterpret_cast<const uchar *>(bytes.data()) + n; }
  bool has(size_t n) const { return n <= body_end; }
};

// Tells whether the server takes this last event, which does not fit its checksum, for the end of a transaction
// that is committed. What other engines have prepared is decided so when it recovers, by the number alone.
bool the_server_takes(const Event &event) {
  return event.type() == XID_END && !opt_master_verify_checksum && event.has(HEADER_BYTES + 8) &&
         uint8korr(event.at(HEADER_BYTES)) != 0;
}

bool begins_with(const std::string &text, const char *start) { return strncasecmp(text.c_str(), start, strlen(start)) == 0; }

// Returns the statement of an event, without its session's settings.
std::string query_of(const Event &event) {
  constexpr size_t FIXED = HEADER_BYTES + 13;
  if (!event.has(FIXED)) return std::string();
  const size_t schema = event.at(HEADER_BYTES + 8)[0], settings = uint2korr(event.at(HEADER_BYTES + 11));
  const size_t start = FIXED + settings + schema + 1;
  return event.has(start) ? event.bytes.substr(start, event.body_end - start) : std::string();
}

// Collects one transaction from its events.
class Collector {
 public:
  explicit Collector(const BinlogFile::Wanted &wanted) : wanted_(wanted) {}

  void begin(uint64_t at) {
    open_ = true;
    transaction_ = BinlogTransaction();
    transaction_.begin = at;
    end_statement();
    kept_ = 0;
  }

  void drop() { open_ = false; }
  bool is_open() const { return open_; }

  void add(const Event &event) {
    const uchar type = event.type();
    switch (type) {
      case TABLE_MAP: return add_map(event);
      case QUERY: return add_query(query_of(event));
      case INTVAR: case APPEND_BLOCK: case DELETE_FILE: case RAND: case USER_VAR: case BEGIN_LOAD_QUERY:
      case EXECUTE_LOAD_QUERY: case ANNOTATE_ROWS: case QUERY_COMPRESSED: return;
      default: break;
    }
    const bool rows = (type >= WRITE_ROWS_V1 && type <= DELETE_ROWS_V1) || (type >= WRITE_ROWS && type <= DELETE_ROWS);
    const bool compressed = type >= WRITE_ROWS_COMPRESSED_V1 && type <= DELETE_ROWS_COMPRESSED;
    if (rows || compressed) return add_rows(event, compressed);
    transaction_.unread = "it has an event of the unknown type " + std::to_string(type);
  }

  const BinlogTransaction &end(const Event &xid, uint64_t at) {
    open_ = false;
    transaction_.id = xid.has(HEADER_BYTES + 8) ? uint8korr(xid.at(HEADER_BYTES)) : 0;
    transaction_.end = at;
    return transaction_;
  }

 private:
  void end_statement() {
    statement_.clear();
    last_rows_ = 0;
    ours_.clear();
  }

  void keep(BinlogTransaction::Step step) {
    kept_ += step.bytes.size();
    if (kept_ <= KEPT_BYTES_MAX) return transaction_.steps.push_back(std::move(step));
    transaction_.steps.clear();
    transaction_.unread = "it is too long";
  }

  // table id u48 | flags u16 | length u8 | schema | 0 | length u8 | table | 0 | ...
  void add_map(const Event &event) {
    size_t at = HEADER_BYTES + 8;
    std::string names[2];
    for (std::string &name : names) {
      if (!event.has(at + 1) || !event.has(at + 2 + event.at(at)[0])) {
        transaction_.unread = "a table map is cut short";
        return;
      }
      name.assign(event.bytes, at + 1, event.at(at)[0]);
      at += 2 + name.size();
    }
    if (!wanted_(names[0], names[1])) return;
    transaction_.is_wanted = true;
    ours_.insert(uint6korr(event.at(HEADER_BYTES)));
    statement_ += event.bytes;
  }

  // table id u48 | flags u16 | ...
  void add_rows(const Event &event, bool compressed) {
    if (!event.has(HEADER_BYTES + 8)) {
      transaction_.unread = "an event with rows is cut short";
      return;
    }
    const bool ours = ours_.count(uint6korr(event.at(HEADER_BYTES))) > 0;
    if (ours && compressed) transaction_.unread = "its rows are compressed";
    if (ours) {
      last_rows_ = statement_.size();
      statement_ += event.bytes;
      if (statement_.size() > KEPT_BYTES_MAX) {
        statement_.clear();
        transaction_.unread = "it is too long";
      }
    }
    if (!(uint2korr(event.at(HEADER_BYTES + 6)) & STATEMENT_END)) return;
    if (last_rows_ > 0 && !statement_.empty()) {
      // The last event of the statement may be another table's.
      statement_[last_rows_ + HEADER_BYTES + 6] |= static_cast<char>(STATEMENT_END);
      keep(BinlogTransaction::Step{false, statement_});
    }
    end_statement();
  }

  void add_query(const std::string &text) {
    if (begins_with(text, "SAVEPOINT ") || begins_with(text, "ROLLBACK TO ")) keep(BinlogTransaction::Step{true, text});
  }

  const BinlogFile::Wanted &wanted_;
  bool open_ = false;
  BinlogTransaction transaction_;
  std::string statement_;
  size_t last_rows_ = 0;  // Where the last event with rows begins in the statement; 0: there is none.
  std::set<uint64_t> ours_;  // The numbers of the wanted tables.
  size_t kept_ = 0;
};

// The events of a file.
class Events {
 public:
  // END: nothing whole is there. TORN: the last event has its header and its length, and does not fit its
  // checksum. DAMAGED: such an event with another one behind it, which does.
  enum Outcome { EVENT, END, TORN, DAMAGED };

  Events(FILE *file, uint64_t bytes) : file_(file), bytes_(bytes) {}

  Outcome next(uint64_t at, Event *event) {
    const Outcome outcome = read(at, event);
    if (outcome != TORN) return outcome;
    // The server wrote up to somewhere here when it ended. Damage has a whole event after it.
    Event other;
    return read(at + event->bytes.size(), &other) == EVENT ? DAMAGED : TORN;
  }

  void set_checksums(bool checksums) { checksums_ = checksums; }

 private:
  Outcome read(uint64_t at, Event *event) {
    event->bytes.assign(HEADER_BYTES, 0);
    if (at + HEADER_BYTES > bytes_ || !get(at, &event->bytes)) return END;
    const size_t bytes = uint4korr(event->at(9)), checksum = checksums_ ? CHECKSUM_BYTES : 0;
    if (bytes < HEADER_BYTES + checksum || at + bytes > bytes_) return END;
    event->bytes.resize(bytes);
    if (!get(at, &event->bytes)) return END;
    event->body_end = bytes - checksum;
    // The flags of a format event change when the file is closed; its checksum is that of a closed one.
    if (checksum == 0 || event->type() == FORMAT) return EVENT;
    return my_checksum(0, event->at(0), event->body_end) == uint4korr(event->at(event->body_end)) ? EVENT : TORN;
  }

  bool get(uint64_t at, std::string *bytes) {
    return fseeko(file_, static_cast<off_t>(at), SEEK_SET) == 0 &&
           fread(bytes->data(), 1, bytes->size(), file_) == bytes->size();
  }

  FILE *file_;
  uint64_t bytes_;
  bool checksums_ = false;
};

}  // namespace

bool BinlogFile::open(const std::string &path) {
  path_ = path;
  file_.reset(fopen(path.c_str(), "rb"));
  return file_ != nullptr || fail(0, strerror(errno));
}

bool BinlogFile::fail(uint64_t position, const std::string &why) {
  error_ = path_ + " at " + std::to_string(position) + ": " + why;
  return false;
}

bool BinlogFile::read(uint64_t position, const Wanted &wanted, const Found &found) {
  FILE *file = file_.get();
  if (fseeko(file, 0, SEEK_END) != 0) return fail(0, strerror(errno));
  const uint64_t bytes = static_cast<uint64_t>(ftello(file));
  Events events(file, bytes);
  Event event;
  uint64_t at = sizeof MAGIC;
  // A file that the server had just made may be empty.
  if (events.next(at, &event) == Events::END) return true;
  uchar magic[sizeof MAGIC];
  if (fseeko(file, 0, SEEK_SET) != 0 || fread(magic, 1, sizeof magic, file) != sizeof magic ||
      memcmp(magic, MAGIC, sizeof magic) != 0 || event.type() != FORMAT) {
    return fail(0, "this is no binary log");
  }
  // The algorithm of the checksums u8 | the event's own checksum u32
  const size_t end = event.bytes.size();
  if (end < HEADER_BYTES + 1 + CHECKSUM_BYTES) return fail(at, "its format is not described");
  events.set_checksums(event.bytes[end - CHECKSUM_BYTES - 1] == 1);
  format_ = event.bytes;
  at += end;
  if (position > at) at = position;
  Collector collector(wanted);
  for (;;) {
    switch (events.next(at, &event)) {
      case Events::END: return true;
      case Events::TORN:
        if (collector.is_open() && the_server_takes(event)) (void)found(collector.end(event, at + event.bytes.size()));
        return true;
      case Events::DAMAGED: return fail(at, "the event does not fit its checksum");
      case Events::EVENT: break;
    }
    const uint64_t next = at + event.bytes.size();
    switch (event.type()) {
      case START_ENCRYPTION: return fail(at, "it is encrypted");
      case GTID:
        // sequence u64 | domain u32 | flags u8
        collector.drop();
        if (event.has(HEADER_BYTES + 13) && !(event.at(HEADER_BYTES + 12)[0] & STANDALONE)) collector.begin(at);
        break;
      case XID_END:
        if (collector.is_open() && !found(collector.end(event, next))) return true;
        break;
      default:
        if (collector.is_open()) collector.add(event);
    }
    at = next;
  }
}

bool binlog_files(const char *index, std::vector<std::string> *files) {
  files->clear();
  std::ifstream file(index);
  if (!file) return false;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) files->push_back(line);
  }
  return true;
}

}  // namespace millpond
