//! The atlas on disk: pages that a browser opens from files.

use std::fs;
use std::path::{Path, PathBuf};

use fairwater_reproduce::Entry;
use fairwater_reproduce::atlas::{self, Listing};
use fairwater_results::write_whole;

use super::runs::Judgement;
use crate::failure::Failure;

/// A site that is being written.
pub(super) struct Site {
    folder: PathBuf,
    listings: Vec<Listing>,
}

impl Site {
    /// Writes into this folder, which is made if it is not there.
    pub(super) fn new(folder: &Path) -> Result<Self, Failure> {
        let site = Self {
            folder: folder.to_owned(),
            listings: Vec::new(),
        };
        for (name, text) in atlas::assets() {
            site.write(&format!("assets/{name}"), &text)?;
        }
        Ok(site)
    }

    /// Writes the page of an entry.
    pub(super) fn add(
        &mut self,
        entry: &Entry,
        judgements: &[Judgement<'_>],
        quick: bool,
    ) -> Result<(), Failure> {
        let parts: Vec<_> = judgements.iter().map(Judgement::part).collect();
        let page = atlas::page(entry, &parts, quick);
        self.write(&format!("{}/{}.html", entry.paper, entry.id), &page)?;
        let judged: Vec<_> = judgements.iter().flat_map(|j| j.judged.clone()).collect();
        self.listings.push(Listing::new(entry, &judged));
        Ok(())
    }

    /// Writes the index of all pages.
    pub(super) fn finish(self, quick: bool) -> Result<(), Failure> {
        self.write("index.html", &atlas::index(&self.listings, quick))?;
        eprintln!("Atlas: {}", self.folder.join("index.html").display());
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.folder.join(name);
        let shown = || path.display().to_string();
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Failure::io(shown()))?;
        }
        write_whole(&path, text.as_bytes()).map_err(Failure::io(shown()))
    }
}
