//! The lines of a mosquitto.conf, and of the files of its `include_dir`.

use crate::config::ConfigError;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An option with its value, on one line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The file that was included, if it is in one.
    file: Option<Arc<str>>,
    /// From 1.
    number: usize,
    pub(super) option: String,
    pub(super) value: String,
}

impl Line {
    /// The name of the file that was included, if it is in one.
    pub(super) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, number, option, .. } = self;
        match file {
            None => write!(f, "{option} (line {number})"),
            Some(file) => write!(f, "{option} ({file}, line {number})"),
        }
    }
}

/// Those of one text; empty lines and comments are none.
pub(super) fn of_text(text: &str) -> Vec<Line> {
    of_file(text, None)
}

/// Those of a file. Where it says `include_dir`, the lines of that folder's files stand, whose
/// names end in `.conf`: in the order of their names, as in Mosquitto, and without `include_dir`
/// themselves.
pub(super) fn read(path: &Path) -> Result<Vec<Line>, ConfigError> {
    let mut lines = Vec::new();
    for line in of_text(&text_of(path)?) {
        if line.option != "include_dir" {
            lines.push(line);
            continue;
        }
        for path in included(Path::new(&line.value))? {
            let name = path.file_name().unwrap_or(OsStr::new("")).to_string_lossy();
            lines.extend(of_file(&text_of(&path)?, Some(&name.into())));
        }
    }
    Ok(lines)
}

fn included(folder: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let unreadable = |source| ConfigError::Read { path: folder.into(), source };
    let entries: Result<Vec<_>, _> = folder.read_dir().map_err(unreadable)?.collect();
    let paths = entries.map_err(unreadable)?.into_iter().map(|entry| entry.path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension() == Some(OsStr::new("conf"))).collect();
    paths.sort();
    Ok(paths)
}

fn text_of(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })
}

fn of_file(text: &str, file: Option<&Arc<str>>) -> Vec<Line> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().map(str::trim).zip(1..);
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let line = |(line, number): (&str, usize)| {
        let (option, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let (option, value) = (option.into(), value.trim().into());
        Line { file: file.cloned(), number, option, value }
    };
    lines.map(line).collect()
}
