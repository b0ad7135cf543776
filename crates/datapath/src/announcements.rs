//! Flows with pending announcements for a peer, as a list through the flows themselves. The list needs
//! no memory of its own, so no announcement is ever lost for want of memory.

use crate::flow::Cold;

/// Both ends of a list of flows with pending announcements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnnouncementList {
    first: Option<u32>,
    last: Option<u32>,
}

impl AnnouncementList {
    pub(crate) const EMPTY: Self = Self {
        first: None,
        last: None,
    };

    /// The slot that has waited longest.
    pub(crate) const fn first(&self) -> Option<u32> {
        self.first
    }

    /// Adds the slot at the end, unless it is listed.
    pub(crate) fn push(&mut self, flows: &mut [Cold], slot: usize) {
        let Ok(name) = u32::try_from(slot) else {
            return;
        };
        if flows[slot].links.listed {
            return;
        }
        let links = &mut flows[slot].links;
        links.listed = true;
        links.previous = self.last;
        links.next = None;
        match self.last {
            Some(last) => flows[last as usize].links.next = Some(name),
            None => self.first = Some(name),
        }
        self.last = Some(name);
    }

    /// Removes the slot, if it is listed; it must be in this list.
    pub(crate) fn remove(&mut self, flows: &mut [Cold], slot: usize) {
        let links = core::mem::take(&mut flows[slot].links);
        if !links.listed {
            return;
        }
        match links.previous {
            Some(previous) => flows[previous as usize].links.next = links.next,
            None => self.first = links.next,
        }
        match links.next {
            Some(next) => flows[next as usize].links.previous = links.previous,
            None => self.last = links.previous,
        }
    }
}
