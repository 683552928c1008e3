//! Circles among the modules of a crate.
//!
//! A module and the modules below it are one part of the house: they may name each other as they
//! like, so that a parent can hold what its children share. Beside each other, modules have one
//! direction: where something in `a`, or below it, names something in `b`, nothing in or below `b`
//! may name `a`. Tests do not count. A name that a module only passes on (`pub use`) is followed to
//! where it is defined, and counts for both.

use anyhow::Context;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// How often a name is followed from one `use` to the next.
const FOLLOWED_MAX: usize = 8;

/// A path in the code, or that of a module: its words from the crate's root.
type Words = Vec<String>;

/// Modules that name each other, below the same parent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    /// The modules, by their paths.
    pub(crate) modules: Vec<String>,
    /// What ties them: "a::b -> c".
    pub(crate) ties: Vec<String>,
}

/// The circles of the crate whose root is the file `root`.
pub(crate) fn of_crate(root: &Path) -> anyhow::Result<Vec<Circle>> {
    let mut tree = Tree::default();
    let text = std::fs::read_to_string(root)?;
    let folder = root.parent().context("a root without a folder")?;
    tree.read(&Words::new(), &text, &mut |name, of| {
        let mut folder = folder.to_owned();
        folder.extend(of);
        let beside = [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")];
        let found: Option<&PathBuf> = beside.iter().find(|path| path.is_file());
        let path = found.with_context(|| format!("no file of the module {name}"))?;
        Ok(std::fs::read_to_string(path)?)
    })?;
    Ok(tree.circles())
}

/// Of a module's name and the path of its parent, the text of its file.
type Files<'a> = dyn FnMut(&str, &[String]) -> anyhow::Result<String> + 'a;

#[derive(Default)]
struct Tree {
    modules: BTreeMap<Words, Module>,
}

#[derive(Default)]
struct Module {
    /// What `use` brings in: a name, and the path it stands for as it is written.
    names: BTreeMap<String, Words>,
    /// Paths of more than one word, as they are written.
    paths: BTreeSet<Words>,
}

impl Tree {
    fn read(&mut self, at: &Words, text: &str, files: &mut Files<'_>) -> anyhow::Result<()> {
        let file = syn::parse_file(text).with_context(|| format!("in {}", at.join("::")))?;
        self.items(at, &file.items, files)
    }

    fn items(
        &mut self,
        at: &Words,
        items: &[syn::Item],
        files: &mut Files<'_>,
    ) -> anyhow::Result<()> {
        let mut module = Module::default();
        for item in items {
            match item {
                // What another program has too is looked at there.
                syn::Item::Mod(inner) if is_elsewhere(&inner.attrs) => {}
                syn::Item::Mod(inner) if !is_test(&inner.attrs) => {
                    let name = inner.ident.to_string();
                    let path = join(at, std::slice::from_ref(&name));
                    match &inner.content {
                        Some((_, items)) => self.items(&path, items, files)?,
                        None => self.read(&path, &files(&name, at)?, files)?,
                    }
                }
                item => module.visit_item(item),
            }
        }
        self.modules.insert(at.clone(), module);
        Ok(())
    }

    /// The modules that a path written in `at` leads through to its end, `at` and those above it
    /// left out.
    fn reached(&self, at: &[String], written: &[String]) -> BTreeSet<Words> {
        let mut reached = BTreeSet::new();
        self.follow(at, written, FOLLOWED_MAX, &mut reached);
        reached.retain(|module| !at.starts_with(module));
        reached
    }

    fn follow(
        &self,
        at: &[String],
        written: &[String],
        times: usize,
        reached: &mut BTreeSet<Words>,
    ) {
        let mut module = at.to_owned();
        let mut rest = written;
        while let [word, ..] = rest {
            match word.as_str() {
                "crate" => module.clear(),
                "super" => drop(module.pop()),
                "self" => {}
                _ => break,
            }
            rest = &rest[1..];
        }
        let mut is_ours = rest.len() < written.len();
        while let [word, ..] = rest {
            let below = join(&module, std::slice::from_ref(word));
            if !self.modules.contains_key(&below) {
                break;
            }
            (module, rest, is_ours) = (below, &rest[1..], true);
        }
        if is_ours {
            reached.insert(module.clone());
        }
        let known = self.modules.get(&module).zip(rest.first());
        let Some(path) = known.and_then(|(of, word)| of.names.get(word)) else { return };
        if times > 0 {
            self.follow(&module, &join(path, &rest[1..]), times - 1, reached);
        }
    }

    /// Which modules name which, as children of the lowest parent that both are below, and by what.
    fn ties(&self) -> BTreeMap<(Words, Words), BTreeSet<String>> {
        let mut ties: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for (at, module) in &self.modules {
            for written in module.paths.iter().chain(module.names.values()) {
                for to in self.reached(at, written) {
                    let shared = at.iter().zip(&to).take_while(|(one, two)| one == two).count();
                    // Down to one's own children is no tie.
                    let Some(from) = at.get(..=shared) else { continue };
                    let pair = (from.to_owned(), to[..=shared].to_owned());
                    let text = format!("{} -> {}", at.join("::"), to.join("::"));
                    ties.entry(pair).or_default().insert(text);
                }
            }
        }
        ties
    }

    fn circles(&self) -> Vec<Circle> {
        let ties = self.ties();
        let mut after: BTreeMap<&Words, BTreeSet<&Words>> = BTreeMap::new();
        for (from, to) in ties.keys() {
            after.entry(from).or_default().insert(to);
        }
        // Few modules: everything that can be had from each by going on.
        loop {
            let mut next = after.clone();
            for to in next.values_mut() {
                let more: Vec<_> = to.iter().filter_map(|next| after.get(*next)).collect();
                to.extend(more.into_iter().flatten());
            }
            if next == after {
                break;
            }
            after = next;
        }
        let leads = |from: &Words, to: &Words| after.get(from).is_some_and(|all| all.contains(to));
        let mut circles: BTreeSet<BTreeSet<&Words>> = BTreeSet::new();
        for from in after.keys().filter(|from| leads(from, from)) {
            circles.insert(after[*from].iter().copied().filter(|to| leads(to, from)).collect());
        }
        let circle = |modules: &BTreeSet<&Words>| {
            let is_within =
                |(from, to): &(Words, Words)| modules.contains(from) && modules.contains(to);
            let within = ties.iter().filter(|(pair, _)| is_within(pair));
            Circle {
                modules: modules.iter().map(|module| module.join("::")).collect(),
                ties: within.flat_map(|(_, texts)| texts.iter().cloned()).collect(),
            }
        };
        circles.iter().map(circle).collect()
    }
}

fn join(one: &[String], two: &[String]) -> Words {
    one.iter().chain(two).cloned().collect()
}

/// Whether an item is there for tests alone.
pub(crate) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let word = attribute.parse_args::<syn::Ident>();
        attribute.path().is_ident("cfg") && word.is_ok_and(|word| word == "test")
    })
}

/// Whether a module's file has its place in another program.
fn is_elsewhere(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("path"))
}

/// The attributes of an item, where it can have some.
pub(crate) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(of) => &of.attrs,
        syn::Item::Enum(of) => &of.attrs,
        syn::Item::Fn(of) => &of.attrs,
        syn::Item::Impl(of) => &of.attrs,
        syn::Item::Mod(of) => &of.attrs,
        syn::Item::Static(of) => &of.attrs,
        syn::Item::Struct(of) => &of.attrs,
        syn::Item::Trait(of) => &of.attrs,
        syn::Item::Type(of) => &of.attrs,
        syn::Item::Use(of) => &of.attrs,
        syn::Item::Macro(of) => &of.attrs,
        _ => &[],
    }
}

impl Module {
    fn name(&mut self, before: &Words, tree: &syn::UseTree) {
        let with = |word: &syn::Ident| {
            let mut path = before.clone();
            // `use a::{self}` is `use a`.
            if path.is_empty() || word != "self" {
                path.push(word.to_string());
            }
            path
        };
        let last = |path: &Words| path.last().cloned().unwrap_or_default();
        match tree {
            syn::UseTree::Path(of) => self.name(&with(&of.ident), &of.tree),
            syn::UseTree::Group(of) => of.items.iter().for_each(|tree| self.name(before, tree)),
            syn::UseTree::Glob(_) => drop(self.paths.insert(before.clone())),
            syn::UseTree::Name(of) => {
                let path = with(&of.ident);
                self.names.insert(last(&path), path);
            }
            syn::UseTree::Rename(of) => {
                let path = with(&of.ident);
                self.paths.insert(path.clone());
                self.names.insert(of.rename.to_string(), path);
            }
        }
    }

    /// Paths in what only a macro reads.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Words::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(word) if path.is_empty() || colons == 2 => {
                    path.push(word.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Punct(point) if point.as_char() == ':' && colons < 2 => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(word) => {
                    self.path(std::mem::replace(&mut path, vec![word.to_string()]));
                    colons = 0;
                    continue;
                }
                _ => {}
            }
            self.path(std::mem::take(&mut path));
            colons = 0;
        }
        self.path(path);
    }

    fn path(&mut self, path: Words) {
        if path.len() > 1 {
            self.paths.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.name(&Words::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, of: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &of.meta {
            self.tokens(list.tokens.clone());
        }
    }

    fn visit_macro(&mut self, of: &'ast syn::Macro) {
        self.tokens(of.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate of these files: path of the module, text.
    fn circles(files: &[(&str, &str)]) -> Vec<Circle> {
        let mut tree = Tree::default();
        let text = |path: &str| {
            let found = files.iter().find(|(name, _)| *name == path);
            found.with_context(|| path.to_owned()).map(|(_, text)| (*text).to_owned())
        };
        let mut file = |name: &str, of: &[String]| text(&join(of, &[name.to_owned()]).join("::"));
        tree.read(&Words::new(), &text("").unwrap(), &mut file).unwrap();
        tree.circles()
    }

    #[test]
    fn modules_beside_each_other_have_one_direction() {
        let root = ("", "mod a; mod b; mod c;");
        let (a, b) = (("a", "use crate::b::B;"), ("b", "fn f() { crate::c::g(); }"));
        assert_eq!(circles(&[root, a, b, ("c", "")]), []);
        for c in [
            "use super::a;",
            "fn g() { say!(\"{}\", crate::a::X) }",
            "use crate::{a::{X}};",
            "#[error(\"{}\", crate::a::X)] struct E;",
        ] {
            let found = circles(&[root, a, b, ("c", c)]);
            assert_eq!(found.len(), 1, "{c}");
            assert_eq!(found[0].modules, ["a", "b", "c"]);
            assert_eq!(found[0].ties, ["a -> b", "b -> c", "c -> a"]);
        }
    }

    #[test]
    fn a_parent_and_its_children_are_one_and_tests_do_not_count() {
        let root = ("", "mod a; mod b;");
        let test = "#[cfg(test)] mod tests { use crate::a::A; } #[cfg(test)] use crate::a::A;";
        let a = ("a", "mod d; mod e; use crate::b::B; use d::D; pub struct A;");
        assert_eq!(circles(&[root, a, ("b", test), ("a::d", "use super::A;"), ("a::e", "")]), []);
        // What is below `a` is a part of it.
        let d = ("a::d", "use super::e::E; use crate::b::B;");
        let e = ("a::e", "use super::D;");
        let found = circles(&[root, a, ("b", "use crate::a::e::E;"), d, e]);
        assert_eq!(found[0].modules, ["a", "b"]);
        // A name that the parent passes on is its child's.
        assert_eq!(found[1].modules, ["a::d", "a::e"]);
    }
}
