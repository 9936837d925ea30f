// The engine's figures: status variables, and SHOW ENGINE MILLPOND STATUS.

#include "status.h"
#include "errors.h"

#include <string>
#include <vector>

namespace millpond {

namespace {

struct Figure {
  std::string name;
  double value;
  bool counter;
};

int collect(void *context, millpond_bytes name, double value, uint32_t is_counter, millpond_bytes) {
  std::string text(reinterpret_cast<const char *>(name.ptr), name.len);
  static_cast<std::vector<Figure> *>(context)->push_back(Figure{text, value, is_counter != 0});
  return 0;
}

// A status variable's name has letters, digits and underlines.
std::string variable_name(const std::string &name) {
  std::string plain = name;
  for (char &c : plain) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return plain;
}

// Gives the server an array of all figures. The memory lives as long as the statement.
int show_figures(MYSQL_THD thd, st_mysql_show_var *var, void *, system_status_var *, enum_var_type) {
  std::vector<Figure> figures;
  millpond_metrics(database, collect, &figures);
  // One more for the failure, and one that ends the array.
  st_mysql_show_var *shown =
      static_cast<st_mysql_show_var *>(thd_calloc(thd, sizeof(st_mysql_show_var) * (figures.size() + 2)));
  var->type = SHOW_ARRAY;
  var->value = shown;
  for (size_t i = 0; shown && i < figures.size(); i++) {
    std::string name = variable_name(figures[i].name);
    shown[i].name = thd_strmake(thd, name.data(), name.size());
    if (figures[i].counter) {
      longlong value = static_cast<longlong>(figures[i].value);
      shown[i].value = thd_memdup(thd, &value, sizeof value);
      shown[i].type = SHOW_LONGLONG;
    } else {
      shown[i].value = thd_memdup(thd, &figures[i].value, sizeof figures[i].value);
      shown[i].type = SHOW_DOUBLE;
    }
  }
  if (shown) {
    const std::string text = failure();
    st_mysql_show_var &last = shown[figures.size()];
    last.name = "failure";
    last.value = thd_strmake(thd, text.data(), text.size());
    last.type = SHOW_CHAR;
  }
  return 0;
}

}  // namespace

st_mysql_show_var status_variables[] = {
    SHOW_FUNC_ENTRY("Millpond", show_figures),
    {nullptr, nullptr, SHOW_UNDEF},
};

bool show_status(handlerton *, THD *thd, stat_print_fn *print, ha_stat_type kind) {
  if (kind != HA_ENGINE_STATUS) return false;
  std::vector<Figure> figures;
  millpond_metrics(database, collect, &figures);
  std::string text = failure();
  if (!text.empty()) text.append("\n\n");
  for (const Figure &figure : figures) {
    char line[256];
    const int digits = figure.counter ? 0 : 3;
    snprintf(line, sizeof line, "%-48s %.*f\n", figure.name.c_str(), digits, figure.value);
    text.append(line);
  }
  return print(thd, STRING_WITH_LEN("Millpond"), STRING_WITH_LEN(""), text.data(), text.size());
}

}  // namespace millpond
