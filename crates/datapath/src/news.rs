//! Flows of which a peer is still to be told something, as a list through the flows themselves:
//! it needs no memory of its own, so that no message is ever lost for want of it.

use crate::flow::Cold;

/// Both ends of the list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewsList {
    first: Option<u32>,
    last: Option<u32>,
}

impl NewsList {
    pub(crate) const EMPTY: Self = Self {
        first: None,
        last: None,
    };

    /// The slot that waits longest.
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

    /// Takes the slot out, if it is listed; it must be in this list.
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
