//! The stacks: every folder with a `stack.toml` below one folder, `stacks`. Adding one is adding a
//! folder; nothing here knows any of them.

use crate::installed::{Marker, missing_needs};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What stacks share, beside theirs.
const SHARED: &str = "lib";

/// Folders above the program that are looked through for `stacks`: that of a build is three up.
const ABOVE_MAX: usize = 5;

/// Why there are no stacks, or not the one that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// No folder of stacks.
    #[error("there is no folder stacks here or beside the program; name it with --stacks DIR")]
    NoFolder,
    /// Nothing in it, or it cannot be read.
    #[error("{0} has no folder with a stack.toml")]
    Empty(PathBuf),
    /// A file that is wrong.
    #[error("{path}: {why}")]
    File {
        /// Of the stack.toml.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// No stack of this name.
    #[error("unknown stack {name}; weir bench clients list has {known}")]
    Unknown {
        /// As it was given.
        name: String,
        /// Names there are.
        known: String,
    },
}

/// What a stack is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workflow {
    /// Receive and count.
    Subscribe,
    /// Receive, parse, find the cells, publish them back.
    Workflow,
    /// Publish at a rate.
    Publish,
    /// Connect and disconnect at a rate.
    Connect,
}

impl Workflow {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Subscribe, Self::Workflow, Self::Publish, Self::Connect];

    /// As the adapter is told.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Subscribe => "subscribe",
            Self::Workflow => "workflow",
            Self::Publish => "publish",
            Self::Connect => "connect",
        }
    }

    /// For a person.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Subscribe => "subscribe only",
            Self::Workflow => "entire workflow",
            Self::Publish => "publish",
            Self::Connect => "connect churn",
        }
    }

    /// What is counted.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            _ => "message",
        }
    }

    /// Whether the replay server plays to the stack; else the stack has a pace of its own.
    pub const fn is_played(self) -> bool {
        matches!(self, Self::Subscribe | Self::Workflow)
    }
}

impl FromStr for Workflow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|workflow| workflow.name() == text);
        found.ok_or_else(|| "a workflow is subscribe, workflow, publish or connect".into())
    }
}

/// The file `stack.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StackFile {
    name: String,
    language: String,
    about: String,
    /// `apt:PACKAGE`, or a program that has to be on PATH.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// Commands, run in the cache folder.
    #[serde(default)]
    pub(crate) setup: Vec<Vec<String>>,
    #[serde(default)]
    run: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) variants: Vec<Variant>,
    #[serde(default = "all_workflows")]
    workflows: Vec<Workflow>,
    #[serde(default = "both_qos")]
    qos: Vec<u8>,
}

/// One way to run a stack; what is absent is as the stack has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variant {
    pub(crate) name: String,
    about: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Such as `pypy`: `{runtime}` in commands.
    #[serde(default)]
    runtime: String,
    /// In place of the stack's.
    run: Option<Vec<String>>,
    /// Beside the stack's: where they fail, this variant alone is missing.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    #[serde(default)]
    pub(crate) setup: Vec<Vec<String>>,
    /// Why it cannot be had anywhere the suite knows of.
    pub(crate) unavailable: Option<String>,
    workflows: Option<Vec<Workflow>>,
    qos: Option<Vec<u8>>,
}

fn all_workflows() -> Vec<Workflow> {
    Workflow::ALL.to_vec()
}

fn both_qos() -> Vec<u8> {
    vec![0, 1]
}

/// A folder with a `stack.toml`.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Name of the folder, and of its cache.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Where its setup puts what it installs.
    pub cache: PathBuf,
    /// SHA-256 of its files and those it shares: a setup is of one of these.
    pub fingerprint: String,
    pub(crate) file: StackFile,
}

/// A variant of a stack, ready to be run if its setup was.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Name of the variant: that of tables.
    pub name: String,
    /// Name of its folder.
    pub folder: String,
    /// Language of the adapter.
    pub language: String,
    /// One line: which library, in which idiom.
    pub about: String,
    /// Command line without the protocol's arguments.
    pub command: Vec<String>,
    /// Arguments of the variant: they follow those of the protocol.
    pub arguments: Vec<String>,
    /// Environment beside the suite's own.
    pub environment: BTreeMap<String, String>,
    /// What it can do.
    pub workflows: Vec<Workflow>,
    /// Where it is run.
    pub cache: PathBuf,
    /// QoS it can be run with.
    pub qos: Vec<u8>,
    /// Why it cannot be run here; nothing if it can.
    pub missing: Option<String>,
}

/// All folders of stacks, by name. `given` is where to look, if the user said so.
///
/// # Errors
/// No folder, none with a stack.toml, or a file that is wrong.
pub fn folders(given: Option<&Path>) -> Result<Vec<Folder>, CatalogError> {
    let root = match given {
        Some(given) => given.to_owned(),
        None => root().ok_or(CatalogError::NoFolder)?,
    };
    let root = std::path::absolute(&root).unwrap_or(root);
    let entries = std::fs::read_dir(&root).map_err(|_| CatalogError::Empty(root.clone()))?;
    let mut paths: Vec<PathBuf> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.retain(|path| path.join("stack.toml").is_file());
    paths.sort();
    if paths.is_empty() {
        return Err(CatalogError::Empty(root));
    }
    let folders = paths.iter().map(|path| read(&root, path)).collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<String> = folders.iter().flat_map(Folder::names).collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(folders),
        Some(pair) => {
            Err(CatalogError::File { path: root, why: format!("two stacks are named {}", pair[0]) })
        }
    }
}

/// `stacks` in this folder, or in one above the program.
fn root() -> Option<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let above = program.ancestors().skip(1).take(ABOVE_MAX).map(Path::to_owned);
    let mut places = [PathBuf::from(".")].into_iter().chain(above).map(|path| path.join("stacks"));
    places.find(|path| path.is_dir())
}

fn read(root: &Path, path: &Path) -> Result<Folder, CatalogError> {
    let file_path = path.join("stack.toml");
    let fail = |why: String| CatalogError::File { path: file_path.clone(), why };
    let text = std::fs::read_to_string(&file_path).map_err(|error| fail(error.to_string()))?;
    let file: StackFile = toml::from_str(&text).map_err(|error| fail(error.to_string()))?;
    let has_command =
        |of: &Variant| of.unavailable.is_some() || !of.run.as_ref().unwrap_or(&file.run).is_empty();
    let is_runnable = match &*file.variants {
        [] => !file.run.is_empty(),
        variants => variants.iter().all(has_command),
    };
    if !is_runnable {
        return Err(fail("there is no command in `run`".into()));
    }
    let names = file.variants.iter().map(|variant| &variant.name).chain([&file.name]);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if let Some(wrong) =
        names.into_iter().find(|name| name.is_empty() || !name.chars().all(is_name))
    {
        return Err(fail(format!("the name {wrong:?}: a name is of letters, digits, - _ and .")));
    }
    let every = file.variants.iter().filter_map(|variant| variant.qos.as_ref()).chain([&file.qos]);
    if every.flatten().any(|&qos| qos > 1) {
        return Err(fail("`qos` is 0 or 1".into()));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut hash = Sha256::new();
    let mut add = |folder: &Path| hash_files(folder, &mut hash).map_err(|e| fail(e.to_string()));
    add(path)?;
    add(&root.join(SHARED))?;
    let fingerprint = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Folder { cache: cache(&name), name, path: path.into(), fingerprint, file })
}

/// Names and contents of all files below a folder, in order; nothing of one that is not there.
fn hash_files(folder: &Path, hash: &mut Sha256) -> std::io::Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    let mut paths: Vec<PathBuf> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // What an interpreter or a build leaves there says nothing.
        if name.starts_with('.') || matches!(&*name, "__pycache__" | "node_modules" | "target") {
            continue;
        }
        hash.update(name.as_bytes());
        if path.is_dir() {
            hash_files(&path, hash)?;
        } else {
            let bytes = std::fs::read(&path)?;
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(&bytes);
        }
    }
    Ok(())
}

/// `$XDG_CACHE_HOME/weir/stacks/NAME`, or the same in `~/.cache`.
fn cache(name: &str) -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || set("HOME").unwrap_or_else(|| "/tmp".into()).join(".cache");
    set("XDG_CACHE_HOME").unwrap_or_else(home).join("weir/stacks").join(name)
}

impl Folder {
    /// Names of its variants.
    pub fn names(&self) -> Vec<String> {
        match &*self.file.variants {
            [] => vec![self.file.name.clone()],
            variants => variants.iter().map(|variant| variant.name.clone()).collect(),
        }
    }

    /// What braces stand for in its commands.
    pub(crate) fn fill(&self, words: &[String], weir: &Path, runtime: &str) -> Vec<String> {
        let stacks = self.path.parent().unwrap_or(&self.path);
        let values = [
            ("{stack}", self.path.display().to_string()),
            ("{stacks}", stacks.display().to_string()),
            ("{cache}", self.cache.display().to_string()),
            ("{weir}", weir.display().to_string()),
            ("{runtime}", runtime.to_owned()),
        ];
        let fill = |word: &String| {
            values.iter().fold(word.clone(), |word, (key, value)| word.replace(key, value))
        };
        words.iter().map(fill).collect()
    }

    /// Its variants. `weir` is this program.
    pub fn stacks(&self, weir: &Path) -> Vec<Stack> {
        let marker = Marker::read(&self.cache);
        let alone = [Variant { name: self.file.name.clone(), ..Variant::default() }];
        let variants = if self.file.variants.is_empty() { &alone } else { &*self.file.variants };
        variants.iter().map(|variant| self.stack(variant, marker.as_ref(), weir)).collect()
    }

    fn stack(&self, variant: &Variant, marker: Option<&Marker>, weir: &Path) -> Stack {
        let file = &self.file;
        let run = variant.run.as_ref().unwrap_or(&file.run);
        let mut environment = file.env.clone();
        environment.extend(variant.env.clone());
        let fill = |value: String| self.fill(&[value], weir, &variant.runtime).concat();
        Stack {
            name: variant.name.clone(),
            folder: self.name.clone(),
            language: file.language.clone(),
            about: variant.about.clone().unwrap_or_else(|| file.about.clone()),
            command: self.fill(run, weir, &variant.runtime),
            arguments: self.fill(&variant.args, weir, &variant.runtime),
            environment: environment.into_iter().map(|(key, value)| (key, fill(value))).collect(),
            workflows: variant.workflows.clone().unwrap_or_else(|| file.workflows.clone()),
            qos: variant.qos.clone().unwrap_or_else(|| file.qos.clone()),
            missing: self.missing(variant, marker),
            cache: self.cache.clone(),
        }
    }

    fn missing(&self, variant: &Variant, marker: Option<&Marker>) -> Option<String> {
        if let Some(why) = &variant.unavailable {
            return Some(why.clone());
        }
        let needs = [&*self.file.needs, &*variant.needs].concat();
        if let Some(why) = missing_needs(&needs) {
            return Some(why);
        }
        if self.file.setup.is_empty() && variant.setup.is_empty() {
            return None;
        }
        let how = format!("weir bench clients setup --stack {}", variant.name);
        let Some(marker) = marker else { return Some(format!("not set up: {how}")) };
        if marker.fingerprint != self.fingerprint {
            return Some(format!("changed since it was set up: {how}"));
        }
        marker.failed.get(&variant.name).cloned()
    }
}

/// The stacks of these names, or folders with all their stacks; all if none are given. What is a
/// name of both is the stack; with `/` behind it, it is the folder.
///
/// # Errors
/// A name that is none.
pub fn choose(
    folders: &[Folder],
    names: &[String],
    weir: &Path,
) -> Result<Vec<Stack>, CatalogError> {
    let all: Vec<Stack> = folders.iter().flat_map(|folder| folder.stacks(weir)).collect();
    if names.is_empty() {
        return Ok(all);
    }
    let mut chosen: Vec<Stack> = Vec::new();
    for name in names {
        let folder = name.trim_end_matches('/');
        let mut found: Vec<&Stack> = all.iter().filter(|of| of.name == *name).collect();
        if found.is_empty() {
            found = all.iter().filter(|of| of.folder == folder).collect();
        }
        if found.is_empty() {
            let known: Vec<&str> = all.iter().map(|of| &*of.name).collect();
            let (name, known) = (name.clone(), known.join(", "));
            return Err(CatalogError::Unknown { name, known });
        }
        found.retain(|of| !chosen.iter().any(|other| other.name == of.name));
        chosen.extend(found.into_iter().cloned());
    }
    Ok(chosen)
}

/// A folder a paragraph: what it is, and of each of its stacks whether it is here.
pub fn render_list(stacks: &[Stack]) -> String {
    let mut text = String::new();
    for folder in stacks.chunk_by(|one, other| one.folder == other.folder) {
        let Stack { folder: name, language, about, .. } = &folder[0];
        let _ = writeln!(text, "{name} ({language}): {about}");
        for of in folder {
            let state = of.missing.as_ref().map_or("here".into(), |why| format!("missing: {why}"));
            let _ = writeln!(text, "  {:<30} {state}", of.name);
        }
    }
    text
}

#[cfg(test)]
mod tests;
