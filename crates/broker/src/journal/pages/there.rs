//! The pages of a store as whoever looks into it sees them. Nothing is changed.

use super::super::clock::WALL;
use super::super::generations::PAGES;
use super::super::no_store::{Damaged, NoStore};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use weir_core::{PageId, PageIn};
use weir_store::disk::Folder;
use weir_store::{Log, OnDamage};

/// Which pages are there.
#[derive(Debug, Default)]
pub(in super::super) struct PagesThere {
    folder: PathBuf,
    there: BTreeSet<PageId>,
    /// Of those whose content was wanted.
    content: BTreeMap<PageId, PageIn>,
    damages: Vec<Damaged>,
}

impl PagesThere {
    /// Reads all pages of a broker's folder, and keeps the content of some.
    pub(in super::super) fn read(root: &Path, wanted: &BTreeSet<PageId>) -> Result<Self, NoStore> {
        let folder = root.join(PAGES);
        let mut all = Self { folder, ..Self::default() };
        if !all.folder.exists() {
            return Ok(all);
        }
        let mut disk = Folder::open_to_read(&all.folder)?;
        let Self { there, content, .. } = &mut all;
        let each = |record: &weir_store::Record<'_>| {
            let page = PageId(record.lsn.bits());
            let is_wanted = wanted.contains(&page);
            let decoded = is_wanted.then(|| PageIn::decode(record.body.tail, WALL));
            match decoded.transpose() {
                // A page that says nothing counts as lost.
                Err(_) => {}
                Ok(decoded) => {
                    there.insert(page);
                    content.extend(decoded.map(|decoded| (page, decoded)));
                }
            }
        };
        let found = Log::scan(&mut disk, 0, OnDamage::Salvage, each)
            .map_err(|why| NoStore::log(&all.folder, why))?;
        let damages = found.damages.iter();
        all.damages = damages.map(|it| Damaged::new(&all.folder, it.segment, it.offset)).collect();
        Ok(all)
    }

    pub(in super::super) fn has(&self, page: PageId) -> bool {
        self.there.contains(&page)
    }

    /// What is on one of the pages that were wanted.
    pub(in super::super) fn content(&self, page: PageId) -> Result<PageIn, NoStore> {
        self.content.get(&page).cloned().ok_or_else(|| {
            let page = weir_store::Lsn::from_bits(page.0).to_string();
            NoStore::Page { path: self.folder.clone(), page, why: "it is not there".into() }
        })
    }

    /// Where the pages' own files are damaged.
    pub(in super::super) fn damages(&self) -> &[Damaged] {
        &self.damages
    }

    /// The pages of a client cannot be had.
    pub(in super::super) fn lost(&self, client_id: &str, messages: u64) -> Damaged {
        let why = format!("pages with {messages} messages for client {client_id:?} are not there");
        Damaged { file: self.folder.clone(), offset: 0, why: Some(why) }
    }
}
