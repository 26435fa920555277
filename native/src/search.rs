//! Finds payloads that contain one of some texts.

use memchr::memmem::Finder;

/// The numbers of the payloads that contain one of the texts, in order.
pub fn find<'a>(payloads: impl Iterator<Item = &'a [u8]>, texts: &[Vec<u8>]) -> Vec<i64> {
    let finders: Vec<Finder> = texts.iter().map(Finder::new).collect();
    let contains = |payload: &[u8]| finders.iter().any(|finder| finder.find(payload).is_some());
    payloads.zip(0..).filter(|(payload, _)| contains(payload)).map(|(_, number)| number).collect()
}
