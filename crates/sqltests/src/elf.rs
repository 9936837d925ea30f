//! Reads symbols of a 64-bit little-endian ELF file (System V ABI, chapters 4 and 5).

use std::collections::HashMap;
use std::path::Path;

/// A program or library, and its dynamic symbols or, in an object file, all its symbols.
#[derive(Debug)]
pub(super) struct Elf {
    bytes: Vec<u8>,
    /// Address and size of each symbol.
    symbols: HashMap<String, (u64, u64)>,
}

/// The kinds of a section that hold symbols.
const SYMTAB: u64 = 2;
const DYNSYM: u64 = 11;
/// A segment that is loaded.
const LOAD: u64 = 1;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;

impl Elf {
    /// Reads a file.
    pub(super) fn read(file: &Path) -> Result<Elf, String> {
        let bytes = std::fs::read(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            return Err(format!("{} is no 64-bit little-endian ELF file", file.display()));
        }
        let mut elf = Elf { bytes, symbols: HashMap::new() };
        elf.find_symbols().ok_or_else(|| format!("{} is damaged", file.display()))?;
        Ok(elf)
    }

    /// Returns the size of a symbol.
    pub(super) fn size(&self, symbol: &str) -> Option<u64> {
        self.symbols.get(symbol).map(|&(_, size)| size)
    }

    /// Returns the names of all symbols that begin with `prefix`, without it, and their sizes.
    pub(super) fn sizes<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
        self.symbols.iter().filter_map(move |(name, &(_, size))| Some((name.strip_prefix(prefix)?, size)))
    }

    /// Returns the bytes of a symbol in the file.
    pub(super) fn content(&self, symbol: &str) -> Option<&[u8]> {
        let &(address, size) = self.symbols.get(symbol)?;
        let (at, entry, count) = (self.number(32, 8)?, self.number(54, 2)?, self.number(56, 2)?);
        for i in 0..count {
            let header = usize::try_from(at + i * entry).ok()?;
            let (kind, offset, start, length) = (
                self.number(header, 4)?,
                self.number(header + 8, 8)?,
                self.number(header + 16, 8)?,
                self.number(header + 32, 8)?,
            );
            if kind == LOAD && start <= address && address + size <= start + length {
                let from = usize::try_from(offset + (address - start)).ok()?;
                return self.bytes.get(from..from.checked_add(usize::try_from(size).ok()?)?);
            }
        }
        None
    }

    fn number(&self, at: usize, bytes: usize) -> Option<u64> {
        let field = self.bytes.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn find_symbols(&mut self) -> Option<()> {
        let (at, count) = (usize::try_from(self.number(40, 8)?).ok()?, self.number(60, 2)?);
        let header = |i: u64| Some(at + usize::try_from(i).ok()? * SECTION_BYTES);
        let field =
            |elf: &Elf, i: u64, offset: usize| usize::try_from(elf.number(header(i)? + offset, 8)?).ok();
        for i in 0..count {
            let kind = self.number(header(i)? + 4, 4)?;
            if kind != DYNSYM && kind != SYMTAB {
                continue;
            }
            let (offset, size) = (field(self, i, 24)?, field(self, i, 32)?);
            let strings = field(self, self.number(header(i)? + 40, 4)?, 24)?;
            for symbol in (offset..offset.checked_add(size)?).step_by(SYMBOL_BYTES) {
                let name = strings + usize::try_from(self.number(symbol, 4)?).ok()?;
                let text = self.bytes.get(name..)?.split(|&byte| byte == 0).next()?;
                let text = String::from_utf8_lossy(text).into_owned();
                let place = (self.number(symbol + 8, 8)?, self.number(symbol + 16, 8)?);
                // An undefined symbol has no size.
                if place.1 > 0 {
                    self.symbols.insert(text, place);
                }
            }
        }
        Some(())
    }
}
