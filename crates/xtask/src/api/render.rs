//! Renders rustdoc's JSON of a crate as one line for each public item. A line has only what
//! programs can rely on. Names of parameters, documentation and attributes such as `must_use` are
//! left out, because no program breaks when they change.

use serde_json::Value;
use std::collections::BTreeSet;

/// The auto traits that are listed: programs rely on them knowingly.
const AUTO_TRAITS: &[&str] = &["Send", "Sync"];

/// Rustdoc's JSON of one crate.
pub(super) struct Crate<'a>(pub(super) &'a Value);

/// Returns all public items below the crate's root, as sorted lines. Items that it re-exports from
/// `others` are listed as its own.
pub(super) fn surface(krate: &Crate<'_>, others: &[Crate<'_>]) -> Vec<String> {
    let mut lines = BTreeSet::new();
    krate.module(&krate.0["root"], "", others, &mut lines);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Sorted by the item's path, then as text.
type Lines = BTreeSet<(String, String)>;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the one member of an object that encodes an enum variant.
fn choice(value: &Value) -> (&str, &Value) {
    match value.as_object().and_then(|object| object.iter().next()) {
        Some((name, inner)) => (name, inner),
        // Variants without content are plain strings.
        None => (text(value), &Value::Null),
    }
}

fn joined(items: impl IntoIterator<Item = String>, between: &str) -> String {
    items.into_iter().collect::<Vec<_>>().join(between)
}

impl Crate<'_> {
    fn item(&self, id: &Value) -> Option<&Value> {
        self.0["index"].get(id.to_string())
    }

    fn module(&self, id: &Value, path: &str, others: &[Crate<'_>], lines: &mut Lines) {
        let Some(module) = self.item(id) else { return };
        for id in list(&module["inner"]["module"]["items"]) {
            let Some(item) = self.item(id) else { continue };
            let (kind, inner) = choice(&item["inner"]);
            match kind {
                "use" => {
                    let name = format!("{path}{}", text(&inner["name"]));
                    if self.item(&inner["id"]).is_some() {
                        self.named(&inner["id"], &name, others, lines);
                    } else if let Some((other, id)) = self.elsewhere(&inner["id"], others) {
                        other.named(&id, &name, others, lines);
                    } else {
                        lines.insert((name.clone(), format!("use {name} = {}", self.path(&inner["id"]))));
                    }
                }
                _ => self.named(id, &format!("{path}{}", text(&item["name"])), others, lines),
            }
        }
    }

    /// Finds an item of another crate in that crate's JSON.
    fn elsewhere<'o>(&self, id: &Value, others: &'o [Crate<'o>]) -> Option<(&'o Crate<'o>, Value)> {
        let path = &self.0["paths"].get(id.to_string())?["path"];
        others.iter().find_map(|other| {
            let paths = other.0["paths"].as_object()?;
            let (id, _) = paths.iter().find(|(_, summary)| summary["path"] == *path)?;
            Some((other, serde_json::from_str(id).ok()?))
        })
    }

    /// Adds the lines of the item that the crate calls `name`.
    fn named(&self, id: &Value, name: &str, others: &[Crate<'_>], lines: &mut Lines) {
        let Some(item) = self.item(id) else { return };
        let (kind, inner) = choice(&item["inner"]);
        let open = list(&item["attrs"]).iter().any(|attr| attr == "non_exhaustive");
        let open = if open { "#[non_exhaustive] " } else { "" };
        let generics = self.generics(&inner["generics"]);
        let mut add = |line: String| lines.insert((name.to_owned(), line));
        match kind {
            "module" => {
                add(format!("mod {name}"));
                return self.module(id, &format!("{name}::"), others, lines);
            }
            "function" => drop(add(self.function(inner, name))),
            "type_alias" => drop(add(format!("type {name}{generics} = {}", self.ty(&inner["type"])))),
            "constant" => drop(add(format!("const {name}: {}", self.ty(&inner["type"])))),
            "struct" => {
                let fields = inner["kind"]["plain"]["fields"].as_array().cloned();
                let fields = fields.unwrap_or_else(|| list(&inner["kind"]["tuple"]).to_vec());
                let hidden = inner["kind"]["plain"]["has_stripped_fields"] == true
                    || fields.iter().any(|field| self.item(field).is_none());
                add(format!("{open}struct {name}{generics}{}", if hidden { " { .. }" } else { "" }));
                for field in fields.iter().filter_map(|id| self.item(id)) {
                    let path = format!("{name}::{}", text(&field["name"]));
                    let line = format!("field {path}: {}", self.ty(&field["inner"]["struct_field"]));
                    lines.insert((path, line));
                }
            }
            "enum" => {
                add(format!("{open}enum {name}{generics}"));
                for variant in list(&inner["variants"]).iter().filter_map(|id| self.item(id)) {
                    let path = format!("{name}::{}", text(&variant["name"]));
                    let fields = self.variant_fields(&variant["inner"]["variant"]["kind"]);
                    let line = format!("variant {path}{fields}");
                    lines.insert((path, line));
                }
            }
            other => drop(add(format!("{other} {name}"))),
        }
        for implementation in list(&inner["impls"]).iter().filter_map(|id| self.item(id)) {
            self.implementation(&implementation["inner"]["impl"], name, lines);
        }
    }

    fn variant_fields(&self, kind: &Value) -> String {
        let (kind, inner) = choice(kind);
        let field = |id: &Value| self.item(id).map(|field| (text(&field["name"]), &field["inner"]));
        match kind {
            "struct" => {
                let fields = list(&inner["fields"]).iter().filter_map(field);
                let fields =
                    fields.map(|(name, inner)| format!("{name}: {}", self.ty(&inner["struct_field"])));
                format!(" {{ {} }}", joined(fields, ", "))
            }
            "tuple" => {
                let fields = list(inner).iter().filter_map(field);
                format!("({})", joined(fields.map(|(_, inner)| self.ty(&inner["struct_field"])), ", "))
            }
            _ => String::new(),
        }
    }

    fn implementation(&self, inner: &Value, name: &str, lines: &mut Lines) {
        let items = || list(&inner["items"]).iter().filter_map(|id| self.item(id));
        if inner["trait"].is_null() {
            for item in items().filter(|item| item["visibility"] == "public") {
                let path = format!("{name}::{}", text(&item["name"]));
                let (kind, inner) = choice(&item["inner"]);
                let line = match kind {
                    "function" => self.function(inner, &path),
                    "assoc_const" => format!("const {path}: {}", self.ty(&inner["type"])),
                    other => format!("{other} {path}"),
                };
                lines.insert((path, line));
            }
            return;
        }
        let of = self.trait_ref(&inner["trait"]);
        let synthetic = inner["is_synthetic"] == true;
        // An implementation for all types says nothing about this one. `StructuralPartialEq` comes
        // with a derive.
        let blanket = !inner["blanket_impl"].is_null() || of == "StructuralPartialEq";
        if blanket || synthetic && !AUTO_TRAITS.contains(&of.as_str()) {
            return;
        }
        let types = items().filter_map(|item| {
            let bound = &item["inner"]["assoc_type"]["type"];
            (!bound.is_null()).then(|| format!("{} = {}", text(&item["name"]), self.ty(bound)))
        });
        let types = joined(types, ", ");
        let types = if types.is_empty() { types } else { format!(" {{ {types} }}") };
        let not = if inner["is_negative"] == true { "!" } else { "" };
        let generics = self.generics(&inner["generics"]);
        let line = format!("impl{generics} {not}{of} for {}{types}", self.ty(&inner["for"]));
        lines.insert((name.to_owned(), line));
    }

    fn function(&self, inner: &Value, path: &str) -> String {
        let (header, sig) = (&inner["header"], &inner["sig"]);
        let words = [("is_const", "const "), ("is_async", "async "), ("is_unsafe", "unsafe ")];
        let words =
            joined(words.into_iter().filter(|(key, _)| header[*key] == true).map(|(_, w)| w.to_owned()), "");
        let inputs = list(&sig["inputs"]).iter().map(|input| {
            let ty = self.ty(&input[1]);
            match (text(&input[0]), ty.as_str()) {
                ("self", "Self") => "self".to_owned(),
                ("self", "&Self") => "&self".to_owned(),
                ("self", "&mut Self") => "&mut self".to_owned(),
                ("self", _) => format!("self: {ty}"),
                _ => ty,
            }
        });
        let output =
            if sig["output"].is_null() { String::new() } else { format!(" -> {}", self.ty(&sig["output"])) };
        let wheres = list(&inner["generics"]["where_predicates"]).iter().map(|p| self.predicate(p));
        let wheres = joined(wheres, ", ");
        let wheres = if wheres.is_empty() { wheres } else { format!(" where {wheres}") };
        format!(
            "{words}fn {path}{}({}){output}{wheres}",
            self.generics(&inner["generics"]),
            joined(inputs, ", ")
        )
    }

    fn predicate(&self, predicate: &Value) -> String {
        let (kind, inner) = choice(predicate);
        match kind {
            "bound_predicate" => format!("{}: {}", self.ty(&inner["type"]), self.bounds(&inner["bounds"])),
            _ => predicate.to_string(),
        }
    }

    fn generics(&self, generics: &Value) -> String {
        let params = list(&generics["params"]).iter().filter_map(|param| {
            let (name, (kind, inner)) = (text(&param["name"]), choice(&param["kind"]));
            // An `impl Trait` is printed where it is used.
            if inner["is_synthetic"] == true {
                return None;
            }
            let bounds = match kind {
                "lifetime" => joined(list(&inner["outlives"]).iter().map(|l| text(l).to_owned()), " + "),
                "const" => self.ty(&inner["type"]),
                _ => self.bounds(&inner["bounds"]),
            };
            let bounds = if bounds.is_empty() { bounds } else { format!(": {bounds}") };
            let default = &inner["default"];
            let default = if default.is_null() { String::new() } else { format!(" = {}", self.ty(default)) };
            Some(format!("{name}{bounds}{default}"))
        });
        let params = joined(params, ", ");
        if params.is_empty() { params } else { format!("<{params}>") }
    }

    fn bounds(&self, bounds: &Value) -> String {
        let bounds = list(bounds).iter().map(|bound| match choice(bound) {
            ("trait_bound", inner) => {
                let maybe = if inner["modifier"] == "maybe" { "?" } else { "" };
                format!("{maybe}{}", self.trait_ref(&inner["trait"]))
            }
            ("outlives", lifetime) => text(lifetime).to_owned(),
            _ => bound.to_string(),
        });
        joined(bounds, " + ")
    }

    fn trait_ref(&self, of: &Value) -> String {
        format!("{}{}", self.path(&of["id"]), self.args(&of["args"]))
    }

    /// Returns a name that does not depend on the imports of the source: the last part of the path
    /// for our own items and for those of the standard library.
    fn path(&self, id: &Value) -> String {
        let path = &self.0["paths"][id.to_string()]["path"];
        let segments: Vec<&str> = list(path).iter().map(text).collect();
        let last = segments.last().copied().unwrap_or_default();
        let first = segments.first().copied().unwrap_or_default();
        let is_std = ["std", "core", "alloc"].contains(&first);
        // The standard library has several types `Error`, and so has Millpond.
        match first.starts_with("millpond") || is_std && last != "Error" {
            true => last.to_owned(),
            false => segments.join("::"),
        }
    }

    fn args(&self, args: &Value) -> String {
        let (kind, inner) = choice(args);
        match kind {
            "angle_bracketed" => {
                let args = list(&inner["args"]).iter().map(|arg| match choice(arg) {
                    ("type", ty) => self.ty(ty),
                    ("lifetime", lifetime) => text(lifetime).to_owned(),
                    _ => arg.to_string(),
                });
                let constraints = list(&inner["constraints"]).iter().map(|constraint| {
                    let equal = &constraint["binding"]["equality"]["type"];
                    format!("{} = {}", text(&constraint["name"]), self.ty(equal))
                });
                let all = joined(args.chain(constraints), ", ");
                if all.is_empty() { all } else { format!("<{all}>") }
            }
            "parenthesized" => {
                let inputs = joined(list(&inner["inputs"]).iter().map(|ty| self.ty(ty)), ", ");
                let output = &inner["output"];
                let output =
                    if output.is_null() { String::new() } else { format!(" -> {}", self.ty(output)) };
                format!("({inputs}){output}")
            }
            _ => String::new(),
        }
    }

    fn ty(&self, ty: &Value) -> String {
        let (kind, inner) = choice(ty);
        match kind {
            "resolved_path" => format!("{}{}", self.path(&inner["id"]), self.args(&inner["args"])),
            "generic" | "primitive" => text(inner).to_owned(),
            "tuple" => format!("({})", joined(list(inner).iter().map(|ty| self.ty(ty)), ", ")),
            "slice" => format!("[{}]", self.ty(inner)),
            "array" => format!("[{}; {}]", self.ty(&inner["type"]), text(&inner["len"])),
            "impl_trait" => format!("impl {}", self.bounds(inner)),
            "dyn_trait" => {
                let traits = list(&inner["traits"]).iter().map(|t| self.trait_ref(&t["trait"]));
                format!("dyn {}", joined(traits, " + "))
            }
            "borrowed_ref" => {
                let lifetime = inner["lifetime"].as_str().map_or(String::new(), |l| format!("{l} "));
                let exclusive = if inner["is_mutable"] == true { "mut " } else { "" };
                format!("&{lifetime}{exclusive}{}", self.ty(&inner["type"]))
            }
            "qualified_path" => format!(
                "<{} as {}>::{}",
                self.ty(&inner["self_type"]),
                self.trait_ref(&inner["trait"]),
                text(&inner["name"])
            ),
            // All other types: the JSON.
            _ => ty.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_are_printed_as_programs_write_them() {
        let paths = json!({ "paths": {
            "1": { "path": ["alloc", "vec", "Vec"] },
            "2": { "path": ["millpond", "db", "Db"] },
            "3": { "path": ["core", "ops", "function", "FnMut"] },
        } });
        let krate = Crate(&paths);
        let of = |id: u32, args: Value| json!({ "resolved_path": { "path": "x", "id": id, "args": args } });
        let bytes = of(
            1,
            json!({ "angle_bracketed": { "args": [{ "type": { "primitive": "u8" } }], "constraints": [] } }),
        );
        let borrowed =
            |ty: Value| json!({ "borrowed_ref": { "lifetime": "'k", "is_mutable": true, "type": ty } });
        assert_eq!(krate.ty(&borrowed(bytes.clone())), "&'k mut Vec<u8>");
        assert_eq!(krate.ty(&json!({ "tuple": [bytes, of(2, Value::Null)] })), "(Vec<u8>, Db)");
        let call = json!({ "parenthesized": { "inputs": [{ "slice": { "primitive": "u8" } }], "output": { "tuple": [] } } });
        let bound = json!({ "trait_bound": { "trait": { "path": "FnMut", "id": 3, "args": call }, "modifier": "none" } });
        assert_eq!(krate.ty(&json!({ "impl_trait": [bound] })), "impl FnMut([u8]) -> ()");
    }
}
